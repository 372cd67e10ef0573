//! Identities of the reference element, for every order.

use kernelwright_codegen::galerkin::mesh::FACE_VERTICES;
use kernelwright_codegen::galerkin::reference::{Element, ElementError, MAX_ORDER, face_node_count, node_count};

fn each(check: impl Fn(&Element)) {
    for order in 1..=MAX_ORDER {
        check(&Element::new(order).expect("supported"));
    }
}

fn monomials(order: usize) -> Vec<[i32; 3]> {
    let range = 0..=order as i32;
    let all = range.clone().flat_map(|a| range.clone().flat_map(move |b| (0..=order as i32).map(move |c| [a, b, c])));
    all.filter(|powers| powers.iter().sum::<i32>() <= order as i32).collect()
}

fn value(powers: &[i32; 3], at: &[f64; 4]) -> f64 {
    (0..3).map(|a| at[a + 1].powi(powers[a])).product()
}

fn factorial(n: i32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// Integral over the unit tetrahedron: a! b! c! / (a + b + c + 3)!.
fn integral(powers: &[i32; 3]) -> f64 {
    powers.iter().map(|&p| factorial(p)).product::<f64>() / factorial(powers.iter().sum::<i32>() + 3)
}

fn nodal(element: &Element, powers: &[i32; 3]) -> Vec<f64> {
    element.nodes.iter().map(|at| value(powers, at)).collect()
}

fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} instead of {expected}");
}

#[test]
fn sizes_and_limits() {
    each(|element| {
        assert_eq!(element.node_count(), node_count(element.order));
        assert_eq!(element.face_node_count(), face_node_count(element.order));
        assert_eq!(
            (element.lift.rows(), element.lift.columns()),
            (element.node_count(), 4 * element.face_node_count())
        );
    });
    assert_eq!(Element::new(0), Err(ElementError::Order(0)));
    assert_eq!(Element::new(MAX_ORDER + 1), Err(ElementError::Order(MAX_ORDER + 1)));
}

#[test]
fn mass_integrates_products_exactly() {
    each(|element| {
        let all = monomials(element.order);
        for (n, p) in all.iter().enumerate().step_by(3) {
            let q = &all[(7 * n + 2) % all.len()];
            let weighted = element.mass.apply(&nodal(element, q));
            let found: f64 = nodal(element, p).iter().zip(&weighted).map(|(a, b)| a * b).sum();
            let product = [p[0] + q[0], p[1] + q[1], p[2] + q[2]];
            close(found, integral(&product), 1e-12, &format!("order {} mass of {p:?} {q:?}", element.order));
        }
    });
}

#[test]
fn derivatives_are_exact_on_polynomials() {
    each(|element| {
        // Rounding in the inverse of the Vandermonde matrix (condition below 1e3) times the largest row sum (N^2).
        let tolerance = 1e-12 * (element.order * element.order) as f64;
        for powers in monomials(element.order) {
            for axis in 0..3 {
                let found = element.derivative[axis].apply(&nodal(element, &powers));
                let mut lower = powers;
                lower[axis] -= 1;
                for (at, found) in element.nodes.iter().zip(found) {
                    let expected = if powers[axis] == 0 { 0.0 } else { f64::from(powers[axis]) * value(&lower, at) };
                    close(found, expected, tolerance, &format!("order {} d{axis} of {powers:?}", element.order));
                }
            }
        }
    });
}

/// The divergence theorem: mass * derivative + its transpose is the sum of face masses, with normals.
#[test]
fn derivative_and_lift_integrate_by_parts() {
    each(|element| {
        let faces = element.face_node_count();
        let ones = vec![1.0; element.node_count()];
        for axis in 0..3 {
            for powers in monomials(element.order).iter().step_by(5) {
                let field = nodal(element, powers);
                let derivative = element.derivative[axis].apply(&field);
                let volume: f64 = element.mass.apply(&derivative).iter().sum();
                // On the unit tetrahedron grad(l_f) is the unit vector of l_f, or minus all of them for face 0.
                let scale = |f: usize| if f == 0 { 1.0 } else { -f64::from(u8::from(f == axis + 1)) };
                let traces: Vec<f64> = (0..4)
                    .flat_map(|f| element.face_nodes[f].iter().map(move |&n| (f, n)))
                    .map(|(f, n)| scale(f) * field[n])
                    .collect();
                assert_eq!(traces.len(), 4 * faces);
                let lifted = element.mass.apply(&element.lift.apply(&traces));
                let surface: f64 = ones.iter().zip(&lifted).map(|(a, b)| a * b).sum();
                close(volume, surface, 1e-12 * (element.order * element.order) as f64, "divergence theorem");
            }
        }
    });
}

#[test]
fn nodes_are_symmetric_distinct_and_on_their_faces() {
    each(|element| {
        let orders = [[1, 0, 2, 3], [1, 2, 3, 0], [3, 1, 0, 2]];
        for (index, at) in element.lattice.iter().zip(&element.nodes) {
            close(at.iter().sum(), 1.0, 1e-15, "partition of unity");
            for permutation in orders {
                let image = permutation.map(|i: usize| index[i]);
                let other = element.lattice.iter().position(|i| *i == image).expect("the lattice is symmetric");
                (0..4).for_each(|i| close(element.nodes[other][i], at[permutation[i]], 1e-15, "symmetry"));
            }
        }
        for (f, nodes) in element.face_nodes.iter().enumerate() {
            assert!(nodes.iter().all(|&n| element.nodes[n][f] == 0.0), "nodes of face {f} lie on it");
            for (&n, index) in nodes.iter().zip(&element.face_lattice) {
                (0..3).for_each(|i| assert_eq!(element.lattice[n][FACE_VERTICES[f][i]], index[i]));
            }
        }
        for (n, a) in element.nodes.iter().enumerate() {
            let distance = |b: &[f64; 4]| (0..4).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt();
            let nearest = element.nodes[..n].iter().map(distance).fold(f64::INFINITY, f64::min);
            assert!(nearest > 0.5 / (element.order * element.order) as f64, "order {}: {nearest}", element.order);
        }
    });
}

/// Lebesgue constants on a sample of points stay far below those of equidistant nodes (1.9, 2.0, 5.5, 13, 30 for orders
/// 1, 2, 4, 6, 8 and growing exponentially).
#[test]
fn interpolation_is_well_conditioned() {
    each(|element| {
        let sample = 2 * element.order + 1;
        let inside = |a: usize, b: usize| {
            let at = [a, b, (sample - a - b) / 2].map(|n| n as f64 / sample as f64);
            [1.0 - at[0] - at[1] - at[2], at[0], at[1], at[2]]
        };
        let points: Vec<[f64; 4]> = (0..=sample).flat_map(|a| (0..=sample - a).map(move |b| inside(a, b))).collect();
        let weights = element.interpolation(&points);
        let mut largest = 0.0f64;
        for n in 0..points.len() {
            close(weights.row(n).iter().sum(), 1.0, 1e-12, "partition of unity");
            largest = largest.max(weights.row(n).iter().map(|w| w.abs()).sum());
        }
        let order = element.order as f64;
        assert!(largest < 2.0 + 0.2 * order * order, "order {order}: {largest}");
    });
}

#[test]
fn met_nodes_lie_at_the_same_places() {
    for order in [1, 2, 3, 5] {
        let element = Element::new(order).expect("supported");
        for (face, vertices) in FACE_VERTICES.iter().enumerate() {
            for corners in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let met = element.met_nodes(face, corners);
                for (own, index) in met.iter().zip(&element.face_lattice) {
                    for i in 0..3 {
                        assert_eq!(element.lattice[*own][vertices[corners[i] as usize]], index[i]);
                    }
                }
            }
        }
    }
}
