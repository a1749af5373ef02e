// Elements. Text goes in as text nodes and attributes only, so nothing that a machine is called can
// become markup; test/pure.test.mjs looks that no other way in is used.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes)) {
		if (typeof value === 'function') {
			element.addEventListener(name, value);
		} else if (value !== null && value !== undefined && value !== false) {
			element.setAttribute(name, value === true ? '' : value);
		}
	}
	element.append(...children.flat().filter((child) => child !== null && child !== undefined));
	return element;
}

export function h(tag, attributes = {}, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
	return fill(document.createElementNS(SVG, tag), attributes, children);
}
