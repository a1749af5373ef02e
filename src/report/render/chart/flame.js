'use strict';
const graph = document.querySelector('.graph');
const said = document.querySelector('.said');
const back = document.querySelector('button');
const number = (element, name) => parseFloat(element.getAttribute(name));
const whole = { x: 0, width: 100, y: -1 };
const frames = Array.from(graph.querySelectorAll('.frame'), element => ({
  element, x: number(element, 'x'), width: number(element, 'width'), y: number(element, 'y'),
  words: element.querySelector('title').textContent,
}));
function zoom(to) {
  for (const { element, x, width, y } of frames) {
    const covers = x <= to.x + 0.001 && x + width >= to.x + to.width - 0.001;
    const within = x >= to.x - 0.001 && x + width <= to.x + to.width + 0.001;
    const above = y < to.y && covers;
    element.style.display = above || (y >= to.y && within) ? '' : 'none';
    element.classList.toggle('above', above);
    element.setAttribute('x', above ? 0 : (x - to.x) / to.width * 100 + '%');
    element.setAttribute('width', above ? '100%' : width / to.width * 100 + '%');
  }
  back.hidden = to === whole;
  if (to.words) said.textContent = to.words;
}
graph.classList.add('zooms');
said.textContent = 'Click a frame to see what it calls; Escape shows all.';
back.addEventListener('click', () => zoom(whole));
document.addEventListener('keydown', event => event.key === 'Escape' && zoom(whole));
for (const frame of frames) {
  const { element, words } = frame;
  element.setAttribute('role', 'button');
  element.setAttribute('aria-label', words);
  element.setAttribute('tabindex', '0');
  element.addEventListener('click', () => zoom(frame));
  element.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); zoom(frame); }
  });
  element.addEventListener('mouseenter', () => { said.textContent = words; });
}
