//! The rectangle of longitudes and latitudes that a shape on the globe lies in, for grids over it.

use super::region::{Figure, Whereabouts};
use super::shape::Shape;
use super::sphere::{Arc, SpherePoint};
use crate::effort::Effort;
use armilla_model::Value;

/// Where a shape lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// It is no valid shape: no function finds it anywhere.
    Nowhere,
    /// It cannot be bounded: it holds a pole, or reaches across the antimeridian.
    Everywhere,
    /// Between these degrees; edges bulge towards the poles, which is counted in.
    Within {
        /// The least longitude.
        west: f64,
        /// The greatest longitude.
        east: f64,
        /// The least latitude.
        south: f64,
        /// The greatest latitude.
        north: f64,
    },
}

/// Where a GeoJSON value of longitudes and latitudes lies.
pub fn extent(value: &Value) -> Extent {
    let mut effort = Effort::default();
    let Ok(Shape::Globe(figure)) = Shape::read(value, false, &mut effort) else {
        return Extent::Nowhere;
    };
    match &figure {
        Figure::Point(place) => {
            let (longitude, latitude) = (place.longitude(), place.latitude());
            within((longitude, longitude), (latitude, latitude))
        }
        Figure::Line(arcs) => of_arcs(arcs),
        Figure::Area(region) => {
            // What holds no place outside the rectangle around its border lies inside it.
            let poles = [SpherePoint([0.0, 0.0, 1.0]), SpherePoint([0.0, 0.0, -1.0])];
            if poles.into_iter().any(|pole| region.locate(pole) != Whereabouts::Outside) {
                return Extent::Everywhere;
            }
            of_arcs(&region.arcs)
        }
    }
}

fn of_arcs(arcs: &[Arc]) -> Extent {
    let mut longitudes = (f64::INFINITY, f64::NEG_INFINITY);
    let mut latitudes = longitudes;
    for arc in arcs {
        let (from, to) = (arc.start.longitude(), arc.end.longitude());
        // An arc takes the shorter way round; meridians at a pole have any longitude.
        if (from - to).abs() >= 179.0 {
            return Extent::Everywhere;
        }
        longitudes = (longitudes.0.min(from).min(to), longitudes.1.max(from).max(to));
        let (low, high) = arc.latitudes();
        latitudes = (latitudes.0.min(low), latitudes.1.max(high));
    }
    within(longitudes, latitudes)
}

fn within((west, east): (f64, f64), (south, north): (f64, f64)) -> Extent {
    let is_plain = south > -90.0 && north < 90.0 && west > -180.0 && east < 180.0;
    if is_plain { Extent::Within { west, east, south, north } } else { Extent::Everywhere }
}
