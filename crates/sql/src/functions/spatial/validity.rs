//! Which rings and lines make a shape on the sphere, and why others do not.

use super::region::{Figure, Region, Whereabouts};
use super::shape::Invalid;
use super::sphere::{Arc, Contact, SpherePoint, is_antipodal, near_pairs};
use crate::effort::Effort;

/// Steps of comparing two arcs, or a place with one.
const STEPS: u64 = 4;

/// A line of positions.
pub(super) fn line(places: &[SpherePoint], effort: &mut Effort<'_>) -> Result<Figure, Invalid> {
    let arcs = arcs(places, 1)?;
    meetings(&[(0, arcs.clone())], true, effort)?;
    Ok(Figure::Line(arcs))
}

/// The rings of one or more polygons.
pub(super) fn area(
    polygons: &[Vec<Vec<SpherePoint>>],
    effort: &mut Effort<'_>,
) -> Result<Figure, Invalid> {
    // Degenerate rings are looked for before anything else.
    let rings = || polygons.iter().flatten().enumerate();
    rings().try_for_each(|(at, ring)| not_a_point(ring, at + 1))?;
    let owners = polygons.iter().enumerate().flat_map(|(at, rings)| rings.iter().map(move |_| at));
    let rings: Result<Vec<_>, _> =
        rings().zip(owners).map(|((at, ring), owner)| Ok((owner, arcs(ring, at + 1)?))).collect();
    let rings = rings?;
    meetings(&rings, false, effort)?;
    nesting(&rings, effort)?;
    let mut region = Region::default();
    rings.into_iter().for_each(|(_, ring)| region.push(ring));
    Ok(Figure::Area(region))
}

fn not_a_point(places: &[SpherePoint], number: usize) -> Result<(), Invalid> {
    if places.windows(2).all(|pair| pair[0].is(pair[1])) {
        return Err(Invalid::new(format!(
            "Not valid because ring ({number}) of a polygon degenerates to a point."
        )));
    }
    Ok(())
}

fn arcs(places: &[SpherePoint], number: usize) -> Result<Vec<Arc>, Invalid> {
    not_a_point(places, number)?;
    if places.windows(2).any(|pair| is_antipodal(pair[0], pair[1])) {
        return Err(Invalid::new(format!(
            "Not valid because an edge of polygon ring ({number}) with antipodal endpoints is invalid."
        )));
    }
    Ok(places.windows(2).filter_map(|pair| Arc::between(pair[0], pair[1])).collect())
}

/// A ring and where it is touched.
type Ring = (usize, Vec<Arc>);

/// Looks at every pair of arcs that meet.
fn meetings(rings: &[Ring], is_line: bool, effort: &mut Effort<'_>) -> Result<(), Invalid> {
    let all: Vec<Arc> = rings.iter().flat_map(|(_, arcs)| arcs.iter().copied()).collect();
    let of_ring: Vec<(usize, usize)> = rings
        .iter()
        .enumerate()
        .flat_map(|(number, (_, arcs))| (0..arcs.len()).map(move |at| (number, at)))
        .collect();
    let mut found = Flaw::default();
    near_pairs(&all, |one, other| {
        if effort.spend(STEPS).is_err() {
            found.stopped = true;
            return false;
        }
        let ((ring, at), (other_ring, other_at)) = (of_ring[one], of_ring[other]);
        match all[one].contact(&all[other]) {
            Contact::Apart => {}
            Contact::Overlap if ring == other_ring => {
                found.overlapping.get_or_insert(ring);
            }
            Contact::Overlap => {
                found.shared.get_or_insert((ring, other_ring));
            }
            Contact::Cross => {
                found.crossing.get_or_insert(ring);
            }
            Contact::Touch => {
                let length = rings[ring].1.len();
                let is_next = ring == other_ring
                    && (other_at - at == 1 || (at == 0 && other_at == length - 1));
                if !is_next {
                    let common = common_place(&all[one], &all[other]);
                    found.touches.push(((ring, at), (other_ring, other_at), common));
                }
            }
        }
        true
    });
    found.told(rings, is_line)
}

type At = (usize, usize);

#[derive(Default)]
struct Flaw {
    stopped: bool,
    overlapping: Option<usize>,
    shared: Option<(usize, usize)>,
    crossing: Option<usize>,
    touches: Vec<(At, At, SpherePoint)>,
}

fn common_place(one: &Arc, other: &Arc) -> SpherePoint {
    let own = [one.start, one.end].into_iter().find(|end| other.holds(*end));
    let its = || [other.start, other.end].into_iter().find(|end| one.holds(*end));
    own.or_else(its).unwrap_or(one.start)
}

impl Flaw {
    fn told(self, rings: &[Ring], is_line: bool) -> Result<(), Invalid> {
        if self.stopped {
            return Err(Invalid::too_complex());
        }
        if let Some(ring) = self.overlapping {
            return Err(Invalid::new(format!(
                "Not valid because of two overlapping edges in ring ({}) of a polygon.",
                ring + 1
            )));
        }
        if is_line {
            return Ok(());
        }
        if let Some(ring) = self.crossing {
            return Err(in_the_interior(ring));
        }
        if let Some((one, other)) = self.shared {
            // The rings of one polygon are named the other way round.
            let (one, other) =
                if rings[one].0 == rings[other].0 { (other, one) } else { (one, other) };
            return Err(Invalid::new(format!(
                "Not valid because an edge of ring ({}) of a polygon overlaps an edge of ring ({}).",
                one + 1,
                other + 1
            )));
        }
        self.connected(rings)
    }

    /// Rings of one polygon that touch in two places, or in a circle, cut its inside into pieces; so
    /// does a ring that touches itself from the outside.
    fn connected(&self, rings: &[Ring]) -> Result<(), Invalid> {
        let apart = |ring: usize| {
            Invalid::new(format!(
                "Not valid because polygon ring ({}) intersects itself or some other ring.",
                ring + 1
            ))
        };
        let mut joined: Vec<usize> = (0..rings.len()).collect();
        let root = |joined: &[usize], mut ring: usize| {
            while joined[ring] != ring {
                ring = joined[ring];
            }
            ring
        };
        let mut seen: Vec<(usize, usize, SpherePoint)> = Vec::new();
        for ((ring, at), (other, other_at), place) in &self.touches {
            if rings[*ring].0 != rings[*other].0 {
                continue;
            }
            if ring == other {
                if !is_pinched_inwards(&rings[*ring].1, *at, *other_at, *place) {
                    return Err(apart(*ring));
                }
                continue;
            }
            let known =
                |(a, b, at): &(usize, usize, SpherePoint)| a == ring && b == other && at.is(*place);
            if seen.iter().any(known) {
                continue;
            }
            seen.push((*ring, *other, *place));
            let (one, two) = (root(&joined, *ring), root(&joined, *other));
            if one == two {
                // Three rings may meet in one place.
                let same = seen.iter().filter(|(_, _, at)| at.is(*place)).count();
                if same < 2 {
                    return Err(apart(*ring));
                }
            }
            joined[one] = two;
        }
        Ok(())
    }
}

/// True when a ring that comes back to a place goes around a hole there, so that its inside stays whole:
/// both loops lie to the left of each other.
fn is_pinched_inwards(ring: &[Arc], at: usize, other_at: usize, place: SpherePoint) -> bool {
    // The loop from the first touch to the second, and the rest.
    let from = if ring[at].end.is(place) { at + 1 } else { at };
    let to = if ring[other_at].start.is(place) { other_at } else { other_at + 1 };
    if from >= to {
        return true;
    }
    let inner: Vec<Arc> = ring[from..to].to_vec();
    let outer: Vec<Arc> = ring[to..].iter().chain(&ring[..from]).copied().collect();
    let closed = |loop_: &[Arc]| {
        loop_.first().zip(loop_.last()).is_some_and(|(first, last)| first.start.is(last.end))
    };
    if inner.len() < 2 || outer.len() < 2 || !closed(&inner) || !closed(&outer) {
        return true;
    }
    lies_left(&inner, &outer) != Some(false) && lies_left(&outer, &inner) != Some(false)
}

/// Whether a ring lies to the left of another; nothing when all of it lies on it.
fn lies_left(ring: &[Arc], of: &[Arc]) -> Option<bool> {
    let mut region = Region::default();
    region.push(of.to_vec());
    let places = ring.iter().flat_map(|arc| [arc.start, arc.middle()]);
    places
        .map(|place| region.locate(place))
        .find(|at| *at != Whereabouts::Border)
        .map(|at| at == Whereabouts::Inside)
}

fn in_the_interior(ring: usize) -> Invalid {
    Invalid::new(format!(
        "Not valid because some portion of a polygon ring ({}) lies in the interior of a polygon.",
        ring + 1
    ))
}

/// Rings of one polygon lie to the left of each other; other polygons lie outside.
fn nesting(rings: &[Ring], effort: &mut Effort<'_>) -> Result<(), Invalid> {
    for (at, (owner, ring)) in rings.iter().enumerate() {
        for (other_at, (other_owner, other)) in rings.iter().enumerate().skip(at + 1) {
            let steps = (ring.len() + other.len()) as u64 * STEPS;
            effort.spend(steps).map_err(|_| Invalid::too_complex())?;
            if owner != other_owner {
                continue;
            }
            match (lies_left(other, ring), lies_left(ring, other)) {
                (Some(false), Some(false)) => {
                    return Err(Invalid::new(format!(
                        "Not valid because the interior of a polygon with rings ({}) and ({}) is not connected.",
                        at + 1,
                        other_at + 1
                    )));
                }
                (Some(false), _) => return Err(in_the_interior(other_at)),
                (_, Some(false)) => return Err(in_the_interior(at)),
                _ => {}
            }
        }
    }
    apart(rings, effort)
}

/// No polygon reaches into another.
fn apart(rings: &[Ring], effort: &mut Effort<'_>) -> Result<(), Invalid> {
    let polygons = rings.last().map_or(0, |(owner, _)| owner + 1);
    if polygons < 2 {
        return Ok(());
    }
    for polygon in 0..polygons {
        let mut region = Region::default();
        let own = rings.iter().filter(|(owner, _)| *owner == polygon);
        own.for_each(|(_, ring)| region.push(ring.clone()));
        for (at, (_, ring)) in rings.iter().enumerate().filter(|(_, (owner, _))| *owner != polygon)
        {
            let steps = region.arcs.len() as u64 * STEPS;
            effort.spend(steps).map_err(|_| Invalid::too_complex())?;
            let mut places = ring.iter().flat_map(|arc| [arc.start, arc.middle()]);
            let first = places.find_map(|place| {
                Some(region.locate(place)).filter(|at| *at != Whereabouts::Border)
            });
            if first == Some(Whereabouts::Inside) {
                return Err(in_the_interior(at));
            }
        }
    }
    Ok(())
}
