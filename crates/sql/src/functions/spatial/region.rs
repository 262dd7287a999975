//! Points, lines and areas on the sphere, and how they lie to each other.
//!
//! An area is what lies to the left of all its rings: a counter-clockwise ring is its inside, a
//! clockwise one everything else, a hole runs the other way round.

use super::sphere::{Arc, Contact, SpherePoint};
use crate::effort::{Effort, Stopped};

/// How far beside a common border it is asked which side is inside: a few millimetres.
const BESIDE: f64 = 1e-9;
/// Pieces of arcs shorter than this are none.
const PIECE_MIN: f64 = 1e-14;
/// Steps of comparing two arcs.
const CONTACT_STEPS: u64 = 4;

/// A valid shape.
#[derive(Debug)]
pub(super) enum Figure {
    Point(SpherePoint),
    Line(Vec<Arc>),
    Area(Region),
}

/// What lies to the left of some rings.
#[derive(Debug, Default)]
pub(super) struct Region {
    /// The arcs of all rings.
    pub(super) arcs: Vec<Arc>,
    /// Where each ring begins among them.
    pub(super) starts: Vec<usize>,
}

/// Where a place lies relative to an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    Inside,
    Border,
    Outside,
}

impl Region {
    /// Adds a ring.
    pub(super) fn push(&mut self, ring: Vec<Arc>) {
        self.starts.push(self.arcs.len());
        self.arcs.extend(ring);
    }

    /// One place of each ring.
    fn samples(&self) -> impl Iterator<Item = SpherePoint> {
        self.starts.iter().map(|start| self.arcs[*start].start)
    }

    /// Where a place lies.
    pub(super) fn locate(&self, place: SpherePoint) -> Whereabouts {
        if self.arcs.iter().any(|arc| arc.holds(place)) {
            return Whereabouts::Border;
        }
        // A way to the middle of an arc arrives at its left, which is inside, or at its right; every arc
        // that it crosses before changes sides. Ways through corners do not count, another arc then serves.
        for target in &self.arcs {
            let side = target.side(place);
            let way = Arc::between(place, target.middle()).filter(|_| side != 0);
            let Some(way) = way else { continue };
            let mut inside = side > 0;
            let mut is_clear = true;
            for arc in self.arcs.iter().filter(|arc| !std::ptr::eq(*arc, target)) {
                match way.contact(arc) {
                    Contact::Apart => {}
                    Contact::Cross => inside = !inside,
                    Contact::Touch | Contact::Overlap => {
                        is_clear = false;
                        break;
                    }
                }
            }
            if is_clear {
                return if inside { Whereabouts::Inside } else { Whereabouts::Outside };
            }
        }
        Whereabouts::Outside
    }
}

impl Figure {
    /// All its arcs; none for a point.
    pub(super) fn arcs(&self) -> &[Arc] {
        match self {
            Self::Point(_) => &[],
            Self::Line(arcs) => arcs,
            Self::Area(region) => &region.arcs,
        }
    }

    /// True when they have a place in common.
    pub(super) fn intersects(
        &self,
        other: &Self,
        effort: &mut Effort<'_>,
    ) -> Result<bool, Stopped> {
        spend(self, other, effort)?;
        Ok(match (self, other) {
            (Self::Point(left), Self::Point(right)) => left.is(*right),
            (Self::Point(place), Self::Line(arcs)) | (Self::Line(arcs), Self::Point(place)) => {
                arcs.iter().any(|arc| arc.holds(*place))
            }
            (Self::Point(place), Self::Area(area)) | (Self::Area(area), Self::Point(place)) => {
                area.locate(*place) != Whereabouts::Outside
            }
            (left, right) if touch(left.arcs(), right.arcs()) => true,
            (Self::Line(line), Self::Area(area)) | (Self::Area(area), Self::Line(line)) => {
                line.first().is_some_and(|arc| area.locate(arc.start) == Whereabouts::Inside)
            }
            (Self::Area(left), Self::Area(right)) => {
                let reaches = |area: &Region, other: &Region| {
                    area.samples().any(|place| other.locate(place) == Whereabouts::Inside)
                };
                reaches(left, right) || reaches(right, left)
            }
            _ => false,
        })
    }

    /// True when this lies in the other and has inner places in common with it.
    pub(super) fn is_within(&self, other: &Self, effort: &mut Effort<'_>) -> Result<bool, Stopped> {
        spend(self, other, effort)?;
        Ok(match (self, other) {
            (Self::Point(left), Self::Point(right)) => left.is(*right),
            (Self::Point(place), Self::Line(arcs)) => is_on_line(*place, arcs),
            (Self::Point(place), Self::Area(area)) => area.locate(*place) == Whereabouts::Inside,
            (Self::Line(left), Self::Line(right)) => pieces(left, right, effort)?
                .iter()
                .all(|(_, place)| right.iter().any(|arc| arc.holds(*place))),
            (Self::Line(line), Self::Area(area)) => {
                let mut is_inside = false;
                for (_, place) in pieces(line, &area.arcs, effort)? {
                    match area.locate(place) {
                        Whereabouts::Inside => is_inside = true,
                        Whereabouts::Border => {}
                        Whereabouts::Outside => return Ok(false),
                    }
                }
                is_inside
            }
            (Self::Area(left), Self::Area(right)) => area_within(left, right, effort)?,
            _ => false,
        })
    }
}

fn spend(left: &Figure, right: &Figure, effort: &mut Effort<'_>) -> Result<(), Stopped> {
    let pairs = (left.arcs().len() as u64 + 1) * (right.arcs().len() as u64 + 1);
    effort.spend(pairs * CONTACT_STEPS)
}

fn touch(left: &[Arc], right: &[Arc]) -> bool {
    left.iter().any(|one| right.iter().any(|other| one.contact(other) != Contact::Apart))
}

/// On a line, but not on an end of it, unless it is closed.
fn is_on_line(place: SpherePoint, arcs: &[Arc]) -> bool {
    let (Some(first), Some(last)) = (arcs.first(), arcs.last()) else { return false };
    let is_end = !first.start.is(last.end) && (place.is(first.start) || place.is(last.end));
    !is_end && arcs.iter().any(|arc| arc.holds(place))
}

/// The middle of every piece of some arcs between the places where others meet them.
fn pieces<'a>(
    arcs: &'a [Arc],
    others: &[Arc],
    effort: &mut Effort<'_>,
) -> Result<Vec<(&'a Arc, SpherePoint)>, Stopped> {
    let mut middles = Vec::new();
    for arc in arcs {
        let mut cuts = vec![arc.start, arc.end];
        for other in others {
            match arc.contact(other) {
                Contact::Apart => {}
                Contact::Cross => cuts.extend(arc.crossing(other)),
                Contact::Touch | Contact::Overlap => {
                    cuts.extend([other.start, other.end].into_iter().filter(|end| arc.holds(*end)));
                }
            }
        }
        cuts.sort_by(|a, b| arc.progress(*a).total_cmp(&arc.progress(*b)));
        effort.spend(cuts.len() as u64 * others.len() as u64)?;
        let middle = cuts.windows(2).filter(|pair| pair[0].chord(pair[1]) > PIECE_MIN);
        middles.extend(middle.filter_map(|pair| Some((arc, pair[0].plus(pair[1]).normalised()?))));
    }
    Ok(middles)
}

/// No piece of the first border lies outside the second area, and none of the second border inside the
/// first. Where borders are one, both areas must lie on the same side.
fn area_within(left: &Region, right: &Region, effort: &mut Effort<'_>) -> Result<bool, Stopped> {
    for (arc, place) in pieces(&left.arcs, &right.arcs, effort)? {
        let is_in = match right.locate(place) {
            Whereabouts::Inside => true,
            Whereabouts::Outside => false,
            Whereabouts::Border => arc
                .left_of(place, BESIDE)
                .is_some_and(|beside| right.locate(beside) != Whereabouts::Outside),
        };
        if !is_in {
            return Ok(false);
        }
    }
    let inner = pieces(&right.arcs, &left.arcs, effort)?;
    Ok(inner.iter().all(|(_, place)| left.locate(*place) != Whereabouts::Inside))
}
