//! Lengths and areas on the WGS-84 ellipsoid, whose edges are great elliptic arcs.
//!
//! With the reduced latitude β, tan β = (1-f)·tan φ, a place is (a·x, a·y, b·z) for a direction
//! (x, y, z) of length 1, and an edge is what a great circle of those directions becomes.

use super::region::{Figure, Region};
use super::sphere::{Arc, SpherePoint};
use std::f64::consts::PI;

/// Half the diameter at the equator, in metres.
const EQUATOR: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// The square of the eccentricity.
const SQUARE: f64 = FLATTENING * (2.0 - FLATTENING);
/// Arcs measured or passed over together; the square root of the most positions a shape may have.
const STRETCH_ARCS: usize = 64;
/// Of all pairs so many that look nearest are measured.
const MEASURED: usize = 8;
/// The nearest place of an arc lies no farther from where a sphere has it, in shares of the distance.
const SHIFT_MAX: f64 = 0.02;
/// Steps of looking for the nearest place; each leaves two thirds.
const NARROWINGS: usize = 24;

/// Places and weights of Gauss and Legendre on one half of -1 to 1; the other half mirrors it.
const GAUSS: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_87),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_89),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

fn integral(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
    let pairs = GAUSS
        .iter()
        .map(|(at, weight)| weight * (function(middle - half * at) + function(middle + half * at)));
    half * pairs.sum::<f64>()
}

/// A direction by reduced latitude.
fn reduced(place: SpherePoint) -> SpherePoint {
    let [x, y, z] = place.0;
    SpherePoint([x, y, z * (1.0 - FLATTENING)]).normalised().unwrap_or(place)
}

/// The angle between two directions, also a small one.
fn angle(from: SpherePoint, to: SpherePoint) -> f64 {
    2.0 * from.chord(to).atan2(from.plus(to).length())
}

/// Metres along the arc between two directions by reduced latitude.
fn metres(from: SpherePoint, to: SpherePoint) -> f64 {
    let turn = angle(from, to);
    if turn == 0.0 {
        return 0.0;
    }
    // Height along the arc is z·cos t + w·sin t. Between opposite places the shortest way is a meridian.
    let (height, rise) = match turn.sin() {
        sine if sine > 1e-9 => (from.0[2], (to.0[2] - from.0[2] * turn.cos()) / sine),
        _ if turn < 1.0 => (from.0[2], (to.0[2] - from.0[2]) / turn),
        _ => (from.0[2], (1.0 - from.0[2] * from.0[2]).max(0.0).sqrt()),
    };
    let speed = |t: f64| {
        let climb = rise * t.cos() - height * t.sin();
        (1.0 - SQUARE * climb * climb).sqrt()
    };
    if turn < 1.0 {
        return EQUATOR * integral(0.0, turn, speed);
    }
    EQUATOR * (integral(0.0, turn / 2.0, speed) + integral(turn / 2.0, turn, speed))
}

/// Metres between two shapes that do not touch.
pub(super) fn distance(left: &Figure, right: &Figure) -> f64 {
    if let (Figure::Point(left), Figure::Point(right)) = (left, right) {
        return metres(reduced(*left), reduced(*right));
    }
    let (left, right) = (Outline::of(left), Outline::of(right));
    let mut nearest = Nearest::default();
    nearest.search(&left, &right);
    nearest.search(&right, &left);
    nearest.measured()
}

/// An arc by reduced latitudes.
#[derive(Clone, Copy)]
struct Edge {
    start: SpherePoint,
    end: SpherePoint,
    /// At right angles to the plane, and to the start in the plane; both of length 1.
    normal: SpherePoint,
    ahead: SpherePoint,
    turn: f64,
}

/// Edges that follow each other, and a ball that holds them: what is farther from the ball than the
/// best so far need not be looked at edge by edge.
struct Stretch {
    edges: Vec<Edge>,
    centre: SpherePoint,
    radius: f64,
}

struct Outline {
    corners: Vec<SpherePoint>,
    stretches: Vec<Stretch>,
}

/// A place and the edge, or the place itself, that it may be nearest to.
#[derive(Clone, Copy)]
struct Candidate {
    chord: f64,
    from: SpherePoint,
    to: SpherePoint,
    edge: Option<Edge>,
}

#[derive(Default)]
struct Nearest {
    /// Those with the smallest chords, in their order.
    best: Vec<Candidate>,
}

impl Outline {
    fn of(figure: &Figure) -> Self {
        if let Figure::Point(place) = figure {
            return Self { corners: vec![reduced(*place)], stretches: Vec::new() };
        }
        let edges: Vec<Edge> = figure.arcs().iter().filter_map(Edge::of).collect();
        let corners = edges.iter().flat_map(|edge| [edge.start, edge.end]).collect();
        let stretches = edges.chunks(STRETCH_ARCS).filter_map(Stretch::of).collect();
        Self { corners, stretches }
    }
}

impl Stretch {
    fn of(edges: &[Edge]) -> Option<Self> {
        let centre = edges.first()?.start;
        let ends = edges.iter().flat_map(|edge| [edge.start, edge.end]);
        let radius = ends.map(|end| centre.chord(end)).fold(0.0, f64::max);
        // Beyond a quarter turn an arc may bulge out of a ball that holds its ends.
        let radius = if radius < 1.4 { radius } else { f64::INFINITY };
        Some(Self { edges: edges.to_vec(), centre, radius })
    }
}

impl Nearest {
    /// From each corner of one outline to each edge of the other, or to its corners if it has no edges.
    fn search(&mut self, from: &Outline, to: &Outline) {
        for corner in &from.corners {
            for stretch in &to.stretches {
                if corner.chord(stretch.centre) - stretch.radius > self.worst() {
                    continue;
                }
                for edge in &stretch.edges {
                    let place = edge.at(edge.foot(*corner));
                    self.offer(*corner, place, Some(*edge));
                }
            }
            if to.stretches.is_empty() {
                to.corners.iter().for_each(|other| self.offer(*corner, *other, None));
            }
        }
    }

    /// Chords farther than this need not be offered: the ellipsoid changes no distance by more than
    /// a hundredth.
    fn worst(&self) -> f64 {
        self.best.first().map_or(f64::INFINITY, |best| best.chord * 1.01)
    }

    fn offer(&mut self, from: SpherePoint, to: SpherePoint, edge: Option<Edge>) {
        let chord = from.chord(to);
        if chord > self.worst() {
            return;
        }
        let at = self.best.partition_point(|known| known.chord <= chord);
        if at < MEASURED {
            self.best.truncate(MEASURED - 1);
            self.best.insert(at, Candidate { chord, from, to, edge });
        }
    }

    fn measured(&self) -> f64 {
        let metres = self.best.iter().map(|candidate| match candidate.edge {
            Some(edge) => edge.metres_from(candidate.from),
            None => metres(candidate.from, candidate.to),
        });
        metres.fold(f64::INFINITY, f64::min)
    }
}

impl Edge {
    fn of(arc: &Arc) -> Option<Self> {
        let (start, end) = (reduced(arc.start), reduced(arc.end));
        let normal = start.plus(end).cross(end.minus(start)).normalised()?;
        Some(Self { start, end, normal, ahead: normal.cross(start), turn: angle(start, end) })
    }

    fn at(&self, turn: f64) -> SpherePoint {
        if turn >= self.turn {
            return self.end;
        }
        self.start.times(turn.cos()).plus(self.ahead.times(turn.sin()))
    }

    /// How far along the edge the perpendicular from a place meets it on a sphere, or the nearer end.
    fn foot(&self, from: SpherePoint) -> f64 {
        let turn = self.ahead.dot(from).atan2(self.start.dot(from));
        if (0.0..=self.turn).contains(&turn) {
            return turn;
        }
        if from.chord(self.end) < from.chord(self.start) { self.turn } else { 0.0 }
    }

    /// Metres from a place to the nearest place of the edge.
    fn metres_from(&self, from: SpherePoint) -> f64 {
        let to = |turn: f64| metres(from, self.at(turn));
        let foot = self.foot(from);
        // Seen from near the pole of its plane all places of an edge are about as far.
        let is_polar = from.dot(self.normal).abs() > 0.99;
        let shift =
            if is_polar { self.turn } else { SHIFT_MAX * angle(from, self.at(foot)) + 1e-12 };
        let (mut low, mut high) = ((foot - shift).max(0.0), (foot + shift).min(self.turn));
        let mut least = to(foot).min(to(low)).min(to(high));
        for _ in 0..NARROWINGS {
            let third = (high - low) / 3.0;
            let (left, right) = (to(low + third), to(high - third));
            least = least.min(left).min(right);
            if left <= right {
                high -= third;
            } else {
                low += third;
            }
        }
        least
    }
}

/// Square metres; 0 for points and lines.
///
/// The area of a zone from the equator up to a latitude is that of a sphere of the same whole area, but
/// for a small difference that vanishes at the equator and at the poles. The sphere's part comes from
/// the angles, the difference from an integral along the border.
pub(super) fn area(figure: &Figure) -> f64 {
    let Figure::Area(region) = figure else { return 0.0 };
    let pole = zone(1.0);
    let difference: f64 = region.arcs.iter().map(|arc| beside(arc, pole)).sum();
    pole * excess(region) - difference
}

/// The area between the equator and the latitude of this sine, for one radian of longitude.
fn zone(sine: f64) -> f64 {
    let eccentricity = SQUARE.sqrt();
    let share = sine / (1.0 - SQUARE * sine * sine) + (eccentricity * sine).atanh() / eccentricity;
    EQUATOR * EQUATOR * (1.0 - SQUARE) * share / 2.0
}

/// What the zone differs by from the sphere's, summed up along an arc.
fn beside(arc: &Arc, pole: f64) -> f64 {
    let turn = angle(arc.start, arc.end);
    let normal = arc.normal();
    let ahead = normal.cross(arc.start);
    // Longitude grows by this over the square of the distance to the axis.
    let around = normal.0[2];
    let share = |t: f64| {
        let [x, y, z] = arc.start.times(t.cos()).plus(ahead.times(t.sin())).0;
        let axis = x * x + y * y;
        if axis < 1e-12 { 0.0 } else { (zone(z) - pole * z) * around / axis }
    };
    let parts = (turn / 0.4).ceil().max(1.0);
    let step = turn / parts;
    (0..parts as u32)
        .map(|part| integral(step * f64::from(part), step * f64::from(part + 1), share))
        .sum()
}

/// The solid angle of an area: what its border leaves to the left.
fn excess(region: &Region) -> f64 {
    let ends = region.starts.iter().skip(1).copied().chain([region.arcs.len()]);
    let rings = region.starts.iter().zip(ends).map(|(start, end)| &region.arcs[*start..end]);
    let whole = 4.0 * PI;
    let sum: f64 = rings.map(solid_angle).sum();
    // A sum of nearly nothing may be a little less than that.
    if sum.abs() < 1e-15 { 0.0 } else { sum.rem_euclid(whole) }
}

/// The solid angle to the left of a ring, but for whole spheres.
fn solid_angle(ring: &[Arc]) -> f64 {
    let fan = fan(ring);
    // Triangles as wide as half a turn have no area that corners could tell; angles do, to fewer digits.
    let by_angles = 2.0 * PI - turns(ring);
    let differ = (fan - by_angles).rem_euclid(4.0 * PI);
    if differ.min(4.0 * PI - differ) < 1e-6 { fan } else { by_angles }
}

/// How much a ring turns to the left at its corners altogether.
fn turns(ring: &[Arc]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    ring.iter()
        .zip(next)
        .map(|(arc, next)| {
            let (from, to) = (arc.normal(), next.normal());
            from.cross(to).dot(arc.end).atan2(from.dot(to))
        })
        .sum()
}

/// The signed solid angle of the triangles between the first corner and each arc.
fn fan(ring: &[Arc]) -> f64 {
    let Some(first) = ring.first().map(|arc| arc.start) else { return 0.0 };
    let triangle = |arc: &Arc| {
        let (a, b, c) = (first, arc.start, arc.end);
        let volume = a.dot(b.minus(a).cross(c.minus(a)));
        2.0 * volume.atan2(1.0 + a.dot(b) + b.dot(c) + c.dot(a))
    };
    ring.iter().map(triangle).sum()
}
