//! The choice among the placements that were judged: none that is below what another rule would
//! set, of the others the least regret, and close to that the simplest.

use std::collections::BTreeMap;

use super::index::{Bug, LineIx, PlaceIx, QueueIx, UpperIx};
use super::judge::{Judge, Judged};
use super::problem::{Line, Mask, Placement};
use super::search::{BELOW, FAR_BELOW, Pattern, Search};

/// Regret in a world around the middle counts this much of that in the middle one.
const AROUND: f64 = 0.2;
/// Regrets this close together are equal; then the simplest wins.
const EQUAL: f64 = 0.02;
/// A state that is set already stays as long as it is not worse than the best by more.
const STAYS: f64 = 0.02;
/// A placement whose masks follow no one pattern has to be better than one with a pattern by more,
/// and again where what comes in on one CPU goes to different ones.
const RAGGED: f64 = 0.08;
/// Half of what the CPUs could let through beyond full links is as much as so many settings.
const BEYOND: f64 = 3.0;
/// Each setting has to bring so much, up to a number of them.
const EFFORT: f64 = 0.001;
const MOST_EFFORT: f64 = 0.03;
/// A loss below the floor that peers are counts this much more.
const SHORT: f64 = 2.0;
/// Where every placement is below some peer, those that are so by hardly more than the least.
const SHORTER: f64 = 0.01;

/// Price of a placement.
struct Loss {
    /// Distance below a peer that may be set, over all of the traffic, beyond what is allowed.
    short: f64,
    /// Regret, effort and what is hard to explain.
    loss: f64,
}

impl Loss {
    /// Key to order by: those below a peer come after all others.
    fn order(&self) -> (f64, f64) {
        (self.short, self.loss)
    }
}

/// Something in which placements differ.
enum Thing {
    Line(LineIx),
    /// The masks of a device.
    Masks(Vec<QueueIx>),
    Upper(UpperIx),
}

impl Thing {
    /// Takes it from one placement into another.
    fn copy(&self, from: &Placement, into: &mut Placement) -> Result<(), Bug> {
        match self {
            Self::Line(line) => *into.lines.at_mut(*line)? = *from.lines.at(*line)?,
            Self::Masks(queues) => {
                for queue in queues {
                    into.masks.at_mut(*queue)?.clone_from(from.masks.at(*queue)?);
                }
            }
            Self::Upper(upper) => into.uppers.at_mut(*upper)?.clone_from(from.uppers.at(*upper)?),
        }
        Ok(())
    }
}

impl Search<'_> {
    /// The least regret, and close to it the simplest; what is set already stays where it is hardly
    /// worse.
    pub(super) fn choose(&mut self, peers: &[Placement]) -> Result<Judged, Bug> {
        // What was kept back for it.
        self.left += self.spare;
        let today = self.problem().today();
        let mut floors = Vec::new();
        for peer in peers {
            if !self.problem().is_of_senders(peer)? {
                floors.push((self.judge.judge(peer)?, self.is_allowed(peer)?));
            }
        }
        let mut best: Vec<f64> = Vec::new();
        for judged in self.pool.iter().chain(floors.iter().map(|(floor, _)| floor)) {
            for (at, (_, figure)) in self.judge.figures(judged).enumerate() {
                match best.get_mut(at) {
                    Some(most) => *most = most.max(figure),
                    None => best.push(figure),
                }
            }
        }
        let loss = |search: &Self, judged: &Judged| -> Result<Loss, Bug> {
            let worst =
                search.judge.figures(judged).zip(&best).fold(0.0_f64, |worst, (own, most)| {
                    let regret = if *most > 0.0 { 1.0 - own.1 / most } else { 0.0 };
                    worst.max(if own.0 == 0 { regret } else { AROUND * regret })
                });
            let ragged = RAGGED * search.raggedness(&judged.placement)?;
            let effort = EFFORT * search.changes(&judged.placement, &today) as f64;
            let (mut barred, mut short) = (0.0_f64, 0.0_f64);
            for (floor, allowed) in &floors {
                let (middle, any) = search.judge.below_on_the_whole(judged, floor);
                let below = (middle - BELOW).max(any - FAR_BELOW).max(0.0);
                let of = if *allowed { &mut short } else { &mut barred };
                *of = of.max(below);
            }
            let simple = ragged + effort.min(MOST_EFFORT);
            let loss = worst + simple + SHORT * (short + barred);
            Ok(Loss { short, loss })
        };
        let mut losses = Vec::new();
        for judged in &self.pool {
            losses.push(loss(self, judged)?);
        }
        let rated = losses.iter().zip(&self.pool);
        let target = rated.reduce(|a, b| if b.0.order() < a.0.order() { b } else { a });
        if let Some(target) = target.map(|(_, judged)| judged.clone()) {
            self.approach(&target, &today)?;
        }
        for judged in self.pool.iter().skip(losses.len()) {
            losses.push(loss(self, judged)?);
        }
        let rated = || losses.iter().zip(&self.pool);
        // Nothing below a peer that could be had instead; where each is below some, the least so.
        let short = rated().map(|(loss, _)| loss.short).fold(f64::INFINITY, f64::min);
        let limit = if short > 0.0 { short + SHORTER } else { 0.0 };
        let least = rated().filter(|(loss, _)| loss.short <= limit);
        let least = least.map(|(loss, _)| loss.loss).fold(f64::INFINITY, f64::min);
        let is_good = |own: &Loss, more: f64| own.short <= limit && own.loss <= least + more;
        let stays =
            rated().find(|(loss, judged)| judged.placement == today && is_good(loss, STAYS));
        if let Some((_, judged)) = stays {
            return Ok(judged.clone());
        }
        let mut simplest: Option<(f64, Judged)> = None;
        for (_, judged) in rated().filter(|(loss, _)| is_good(loss, EQUAL)) {
            let cost = self.complexity(judged)?;
            let better = match &simplest {
                None => true,
                Some((least, other)) => {
                    cost < least - 1e-9
                        || (cost < least + 1e-9 && judged.score > other.score + 1e-9)
                }
            };
            if better {
                simplest = Some((cost, judged.clone()));
            }
        }
        let Some((mut cost, mut chosen)) = simplest else { return self.look(&today) };
        // Each thing as it is today, or tidier, where that is as good: round and round, until
        // nothing of all is.
        let (mut at, mut failed) = (0, 0);
        loop {
            let all = self.simpler(&chosen.placement, &today)?;
            if failed >= all.len() || self.left == 0 {
                return Ok(chosen);
            }
            for simpler in all.iter().cycle().skip(at % all.len()).take(all.len() - failed) {
                at += 1;
                failed += 1;
                if *simpler == chosen.placement || !self.is_allowed(simpler)? {
                    continue;
                }
                let judged = self.look(simpler)?;
                let own = self.complexity(&judged)?;
                if own < cost - 1e-9 && is_good(&loss(self, &judged)?, EQUAL) {
                    (cost, chosen, failed) = (own, judged, 0);
                    break;
                }
                if self.left == 0 {
                    break;
                }
            }
        }
    }

    /// Takes away each mask of the very CPU that the queue's packets come in on: a detour that brings
    /// nothing.
    pub(super) fn tidy(&self, placement: &mut Placement) -> Result<(), Bug> {
        for (index, queue) in self.steered() {
            let Some(line) = queue.line else { continue };
            let mask = placement.masks.at_mut(index)?;
            if mask.len() == 1 && mask.first() == placement.lines.at(line)?.as_ref() {
                mask.clear();
            }
        }
        Ok(())
    }

    /// Placements that differ from this one in one thing: that thing as it is today, one pattern
    /// for a card, or a line off the housekeeping CPU or beside its pair.
    fn simpler(&self, from: &Placement, today: &Placement) -> Result<Vec<Placement>, Bug> {
        let mut all = Vec::new();
        let problem = self.problem();
        for pattern in Pattern::ALL {
            let mut alike = from.clone();
            self.masks(&mut alike, pattern)?;
            alike.uppers.clone_from(&from.uppers);
            all.push(alike);
        }
        let mut devices: Vec<&str> = problem.queues.iter().map(|q| q.device.as_str()).collect();
        devices.dedup();
        for device in devices {
            let mut as_today = from.clone();
            for (index, queue) in problem.queues.each().filter(|(_, q)| q.device == device) {
                as_today.masks.at_mut(index)?.clone_from(&queue.before);
            }
            all.push(as_today);
            for pattern in Pattern::ALL {
                let mut other = from.clone();
                for (index, _) in problem.queues.each().filter(|(_, q)| q.device == device) {
                    let mask = self.mask(from, index, pattern)?;
                    *other.masks.at_mut(index)? = mask;
                }
                all.push(other);
            }
        }
        for (index, line) in problem.lines.each().filter(|(_, line)| !line.fixed) {
            let mut other = from.clone();
            *other.lines.at_mut(index)? = *today.lines.at(index)?;
            all.push(other);
            let at = *from.lines.at(index)?;
            for pair in problem.lines_of(&line.device).filter(|pair| *pair != index) {
                if problem.lines.at(pair)?.pair == line.pair {
                    let mut beside = from.clone();
                    *beside.lines.at_mut(index)? = *from.lines.at(pair)?;
                    all.push(beside);
                }
            }
            if at.is_some() && at == problem.housekeeping {
                for place in self.for_line(index)?.into_iter().take(16) {
                    let mut moved = from.clone();
                    *moved.lines.at_mut(index)? = Some(place);
                    all.push(moved);
                }
            }
        }
        Ok(all)
    }

    /// Keeps the placements between today's and another one, which differ from today's in the things
    /// that bring most: often a few do all of it.
    fn approach(&mut self, target: &Judged, today: &Placement) -> Result<(), Bug> {
        let things = self.differences(&target.placement, today)?;
        if things.len() < 2 || 2 * things.len() > self.left {
            return Ok(());
        }
        let mut ranked: Vec<(f64, Thing)> = Vec::new();
        for thing in things {
            let mut without = target.placement.clone();
            thing.copy(today, &mut without)?;
            ranked.push((self.look(&without)?.score, thing));
        }
        // What is missed most comes first.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut between = today.clone();
        for (_, thing) in ranked {
            thing.copy(&target.placement, &mut between)?;
            if self.is_allowed(&between)? {
                let judged = self.look(&between)?;
                self.keep(judged);
            }
        }
        Ok(())
    }

    /// Things in which two placements differ: lines, and the masks of a device together.
    fn differences(&self, one: &Placement, other: &Placement) -> Result<Vec<Thing>, Bug> {
        let problem = self.problem();
        let mut all = Vec::new();
        for index in problem.lines.ids() {
            if one.lines.at(index)? != other.lines.at(index)? {
                all.push(Thing::Line(index));
            }
        }
        let mut devices: BTreeMap<&str, Vec<QueueIx>> = BTreeMap::new();
        for (index, queue) in problem.queues.each() {
            if one.masks.at(index)? != other.masks.at(index)? {
                devices.entry(&queue.device).or_default().push(index);
            }
        }
        all.extend(devices.into_values().map(Thing::Masks));
        for index in problem.uppers.ids() {
            if one.uppers.at(index)? != other.uppers.at(index)? {
                all.push(Thing::Upper(index));
            }
        }
        Ok(all)
    }

    /// Parts of the masks that an owner could not explain: 1 where no one pattern makes them, 1
    /// more where what comes in on one CPU goes to different ones.
    fn raggedness(&self, placement: &Placement) -> Result<f64, Bug> {
        if self.is_patterned(placement)? {
            return Ok(0.0);
        }
        let mut targets: BTreeMap<Option<PlaceIx>, &Mask> = BTreeMap::new();
        for (index, queue) in self.steered() {
            let mask = placement.masks.at(index)?;
            let at = queue.line.map(|l| placement.lines.at(l)).transpose()?.copied().flatten();
            if !mask.is_empty() && *targets.entry(at).or_insert(mask) != mask {
                return Ok(2.0);
            }
        }
        Ok(1.0)
    }

    /// True if one rule makes all masks that there are.
    fn is_patterned(&self, placement: &Placement) -> Result<bool, Bug> {
        let mut masks = Vec::new();
        for (index, _) in self.steered() {
            let mask = placement.masks.at(index)?;
            if !mask.is_empty() {
                masks.push((index, mask));
            }
        }
        if masks.iter().all(|(_, mask)| mask.len() == 1) {
            return Ok(true);
        }
        for pattern in Pattern::ALL {
            let mut follows = true;
            for (index, mask) in &masks {
                follows = follows && self.mask(placement, *index, pattern)? == **mask;
            }
            if follows {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Number of settings in which two placements differ.
    fn changes(&self, one: &Placement, other: &Placement) -> usize {
        let lines = one.lines.iter().zip(other.lines.iter()).filter(|(a, b)| a != b).count();
        let masks = one.masks.iter().zip(other.masks.iter()).filter(|(a, b)| a != b).count();
        let uppers = one.uppers.iter().zip(other.uppers.iter()).filter(|(a, b)| a != b).count();
        lines + masks + uppers
    }

    /// Amount that there is to set, to read and to explain.
    fn complexity(&self, judged: &Judged) -> Result<f64, Bug> {
        let problem = self.problem();
        let placement = &judged.placement;
        let mut cost = -BEYOND * Judge::reach(judged) / std::f64::consts::LN_2;
        let mut pairs: BTreeMap<(&str, u32), Option<PlaceIx>> = BTreeMap::new();
        // The lines of a card's one queue have nothing to be alike to.
        let several = |line: &Line| {
            problem.lines.iter().any(|other| other.device == line.device && other.pair != line.pair)
        };
        let bigs = problem.places.iter().any(|p| p.usable && !p.big);
        for (index, line) in problem.lines.each() {
            let at = *placement.lines.at(index)?;
            cost += if at == line.home { 0.0 } else { 1.0 };
            let works = *self.works.at(index)?;
            let Some(place) = at.filter(|_| works && !line.fixed) else { continue };
            if bigs && !problem.places.at(place)?.big {
                cost += 2.0;
            }
            if problem.housekeeping == Some(place) && problem.usable().count() > 2 {
                cost += 1.5;
            }
            let first = *pairs.entry((&line.device, line.pair)).or_insert(at);
            cost += if first == at || !several(line) { 0.0 } else { 1.0 };
        }
        let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
        // What comes in on one CPU goes to the same others.
        let mut targets: BTreeMap<Option<PlaceIx>, &Mask> = BTreeMap::new();
        for (index, queue) in problem.queues.each() {
            let mask = placement.masks.at(index)?;
            cost += if *mask == queue.before { 0.0 } else { 1.0 };
            if !*self.busy.at(index)? {
                continue;
            }
            let first = *shapes.entry(&queue.device).or_insert(mask.len());
            cost += if first == mask.len() { 0.0 } else { 2.0 };
            if mask.is_empty() {
                continue;
            }
            cost += 0.5;
            for place in mask {
                if bigs && !problem.places.at(*place)?.big {
                    cost += 0.5;
                }
            }
            let at = queue.line.map(|l| placement.lines.at(l)).transpose()?.copied().flatten();
            // All but the poller's CPU, all, and one are easily explained; anything else is not.
            let usable = problem.usable().count();
            let plain = mask.len() == 1
                || mask.len() == usable
                || (mask.len() + 1 == usable && at.is_some_and(|at| !mask.contains(&at)));
            cost += if plain { 0.0 } else { 0.25 };
            cost += if *targets.entry(at).or_insert(mask) == mask { 0.0 } else { 1.0 };
        }
        for (index, upper) in problem.uppers.each() {
            cost += if *placement.uppers.at(index)? == upper.before { 0.0 } else { 1.0 };
        }
        Ok(cost)
    }
}
