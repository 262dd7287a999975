//! Places on the unit sphere and arcs between them.
//!
//! The edges of shapes are great elliptic arcs: the plane through the centre of the Earth and both
//! ends cuts the ellipsoid in them. Such a plane stays a plane when longitude and latitude are taken
//! for those of a sphere, so whether edges meet, and what lies to the left of them, is a question
//! about great circles. The poles and the antimeridian need no special case.

/// What is nearer to an arc than this lies on it: some nanometres, what rounding takes away.
const NEAR: f64 = 1e-15;
/// Ends that are farther apart than this have no arc of their own.
const ANTIPODAL: f64 = 1.2e-8;

/// A direction from the centre, of length 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpherePoint(pub(super) [f64; 3]);

/// How two arcs meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// Not at all.
    Apart,
    /// They go through each other.
    Cross,
    /// An end of one lies on the other.
    Touch,
    /// They have a piece in common.
    Overlap,
}

/// The shorter arc of a great circle between two places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) start: SpherePoint,
    pub(super) end: SpherePoint,
    /// At right angles to its plane, of length 1; the arc runs counter-clockwise around it.
    normal: SpherePoint,
    /// The place half-way, and a radius around it that holds the arc.
    middle: SpherePoint,
    radius: f64,
}

impl SpherePoint {
    /// The place with this longitude and latitude in degrees.
    pub(super) fn of(longitude: f64, latitude: f64) -> Self {
        let ((sin, cos), (height, width)) = (sin_cos(longitude), sin_cos(latitude));
        Self([width * cos, width * sin, height])
    }

    pub(super) fn longitude(self) -> f64 {
        self.0[1].atan2(self.0[0]).to_degrees()
    }

    pub(super) fn latitude(self) -> f64 {
        self.0[2].atan2(self.0[0].hypot(self.0[1])).to_degrees()
    }

    pub(super) fn dot(self, other: Self) -> f64 {
        self.0[0] * other.0[0] + self.0[1] * other.0[1] + self.0[2] * other.0[2]
    }

    pub(super) fn cross(self, other: Self) -> Self {
        let ([ax, ay, az], [bx, by, bz]) = (self.0, other.0);
        Self([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - other.0[at]))
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self(self.0.map(|part| part * factor))
    }

    pub(super) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The same direction with length 1; nothing for the centre.
    pub(super) fn normalised(self) -> Option<Self> {
        let length = self.length();
        (length > 0.0).then(|| self.times(1.0 / length))
    }

    /// The straight distance.
    pub(super) fn chord(self, other: Self) -> f64 {
        self.minus(other).length()
    }

    /// True for one and the same place.
    pub(super) fn is(self, other: Self) -> bool {
        self.chord(other) <= NEAR
    }
}

/// Sine and cosine of degrees, exact at multiples of 90.
fn sin_cos(degrees: f64) -> (f64, f64) {
    let quarters = (degrees / 90.0).round();
    let (sin, cos) = (degrees - quarters * 90.0).to_radians().sin_cos();
    match (quarters as i64).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

impl Arc {
    /// The arc between two places; nothing between equal ones and those opposite of each other.
    pub(super) fn between(start: SpherePoint, end: SpherePoint) -> Option<Self> {
        if start.is(end) || is_antipodal(start, end) {
            return None;
        }
        // Twice the cross product of the ends, without the digits that a plain one loses for near ones.
        let normal = start.plus(end).cross(end.minus(start)).normalised()?;
        let middle = start.plus(end).normalised()?;
        let radius = middle.chord(start).max(middle.chord(end)) + NEAR;
        Some(Self { start, end, normal, middle, radius })
    }

    /// On which side of the arc's great circle a place lies: 1 to the left, -1 to the right, 0 on it.
    pub(super) fn side(&self, place: SpherePoint) -> i32 {
        // Near an end of a short arc the difference keeps the digits.
        let nearer = if place.dot(self.middle) > 0.0 { self.middle } else { SpherePoint([0.0; 3]) };
        let height = self.normal.dot(place.minus(nearer));
        if height.abs() <= NEAR {
            0
        } else if height > 0.0 {
            1
        } else {
            -1
        }
    }

    /// True when a place of the great circle lies between the ends or on one.
    fn spans(&self, place: SpherePoint) -> bool {
        self.normal.cross(self.start).dot(place) >= -NEAR
            && self.end.cross(self.normal).dot(place) >= -NEAR
            && self.middle.dot(place) > 0.0
    }

    /// True for the places of the arc, its ends included.
    pub(super) fn holds(&self, place: SpherePoint) -> bool {
        place.is(self.start)
            || place.is(self.end)
            || (self.is_near(place, 0.0) && self.side(place) == 0 && self.spans(place))
    }

    fn is_near(&self, place: SpherePoint, radius: f64) -> bool {
        self.middle.chord(place) <= self.radius + radius + NEAR
    }

    /// How the arc meets another.
    pub(super) fn contact(&self, other: &Self) -> Contact {
        if !self.is_near(other.middle, other.radius) {
            return Contact::Apart;
        }
        let here = (self.side(other.start), self.side(other.end));
        let there = (other.side(self.start), other.side(self.end));
        if here == (0, 0) || there == (0, 0) {
            return self.along(other);
        }
        if here.0 * here.1 < 0 && there.0 * there.1 < 0 {
            // The circles meet in two opposite places; both arcs must be on the same side.
            return if here.0 == there.1 { Contact::Cross } else { Contact::Apart };
        }
        let touches = self.holds(other.start)
            || self.holds(other.end)
            || other.holds(self.start)
            || other.holds(self.end);
        if touches { Contact::Touch } else { Contact::Apart }
    }

    /// How two arcs of one great circle meet.
    fn along(&self, other: &Self) -> Contact {
        let inside = |arc: &Self, place: SpherePoint| {
            !place.is(arc.start) && !place.is(arc.end) && arc.spans(place)
        };
        let same = (self.start.is(other.start) && self.end.is(other.end))
            || (self.start.is(other.end) && self.end.is(other.start));
        let overlap = same
            || inside(self, other.start)
            || inside(self, other.end)
            || inside(other, self.start)
            || inside(other, self.end);
        let shares_an_end =
            [self.start, self.end].iter().any(|end| end.is(other.start) || end.is(other.end));
        match (overlap, shares_an_end) {
            (true, _) => Contact::Overlap,
            (false, true) => Contact::Touch,
            (false, false) => Contact::Apart,
        }
    }

    /// Where two arcs that cross do so.
    pub(super) fn crossing(&self, other: &Self) -> Option<SpherePoint> {
        let place = self.normal.cross(other.normal).normalised()?;
        Some(if place.dot(self.middle) < 0.0 { place.times(-1.0) } else { place })
    }

    /// The pole of the arc's great circle that lies to its left.
    pub(super) fn normal(&self) -> SpherePoint {
        self.normal
    }

    /// The place half-way between the ends.
    pub(super) fn middle(&self) -> SpherePoint {
        self.middle
    }

    /// How far along the arc a place of it is; grows from start to end.
    pub(super) fn progress(&self, place: SpherePoint) -> f64 {
        self.normal.cross(self.start).dot(place).atan2(self.start.dot(place))
    }

    /// A place beside the arc, to the left of one of its places.
    pub(super) fn left_of(&self, place: SpherePoint, far: f64) -> Option<SpherePoint> {
        place.plus(self.normal.times(far)).normalised()
    }

    /// The least and the greatest latitude of the arc, in degrees.
    pub(super) fn latitudes(&self) -> (f64, f64) {
        let (start, end) = (self.start.latitude(), self.end.latitude());
        let (mut low, mut high) = (start.min(end), start.max(end));
        // The northernmost place of the great circle, if it is on the arc, and the one opposite of it.
        let [x, y, z] = self.normal.0;
        if let Some(top) = SpherePoint([-x * z, -y * z, x * x + y * y]).normalised() {
            if self.spans(top) {
                high = high.max(top.latitude());
            }
            if self.spans(top.times(-1.0)) {
                low = low.min(-top.latitude());
            }
        }
        (low, high)
    }

    /// Where the arc lies on an axis.
    pub(super) fn interval(&self, axis: usize) -> (f64, f64) {
        (self.middle.0[axis] - self.radius, self.middle.0[axis] + self.radius)
    }
}

/// True for ends that are opposite of each other.
pub(super) fn is_antipodal(start: SpherePoint, end: SpherePoint) -> bool {
    start.plus(end).length() < ANTIPODAL
}

/// Every pair of arcs that may meet, by their positions in the list; ends when told to.
pub(super) fn near_pairs(arcs: &[Arc], mut visit: impl FnMut(usize, usize) -> bool) {
    // Sorted along the axis where they are spread most, an arc meets only those that begin before it ends.
    let spread = |axis: usize| {
        let ends = arcs.iter().map(|arc| arc.interval(axis));
        let (low, high) = ends
            .fold((f64::MAX, f64::MIN), |(low, high), (from, to)| (low.min(from), high.max(to)));
        high - low
    };
    let axis = (0..3).max_by(|a, b| spread(*a).total_cmp(&spread(*b))).unwrap_or(0);
    let mut order: Vec<usize> = (0..arcs.len()).collect();
    order.sort_unstable_by(|a, b| arcs[*a].interval(axis).0.total_cmp(&arcs[*b].interval(axis).0));
    for (at, &one) in order.iter().enumerate() {
        let end = arcs[one].interval(axis).1;
        for &other in order[at + 1..].iter().take_while(|it| arcs[**it].interval(axis).0 <= end) {
            if !visit(one.min(other), one.max(other)) {
                return;
            }
        }
    }
}
