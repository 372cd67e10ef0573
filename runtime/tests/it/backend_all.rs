//! One suite run on every back end that is there: what the trait promises.

use crate::backend_kernels::{axpy, blocks, dot, filled, sample, values};
use kernelwright::backend::cuda::{CudaBackend, CudaOptions};
use kernelwright::backend::host::{HostBackend, HostOptions};
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::{Arithmetic, Backend, BackendError, BufferHandle, Target};
use kernelwright::cache::Cache;
use kernelwright_codegen::kernel::Element;
use std::sync::Arc;

/// Runs a check on every back end, with arithmetic that rounds as written. Units are kept in the build directory:
/// each kernel is compiled once, however often the suite uses it.
fn on_all(check: impl Fn(&mut dyn Backend)) {
    let cache = || Some(Arc::new(Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"))));
    let arithmetic = Arithmetic::Strict;
    for target in [Target::Host, Target::Cuda] {
        check(&mut InterpBackend::new(InterpOptions { target, ..Default::default() }));
    }
    for threads in [1, 2, 5] {
        let options = HostOptions { threads: Some(threads), arithmetic, cache: cache(), compiler: None };
        check(&mut HostBackend::new(options).expect("tests need a C compiler"));
    }
    match CudaBackend::new(CudaOptions { device: 0, arithmetic, cache: cache() }) {
        Ok(mut backend) => check(&mut backend),
        Err(BackendError::Unavailable(why)) => println!("skipped on cuda: {why}"),
        Err(error) => panic!("{error}"),
    }
}

fn refused(result: Result<impl Sized, BackendError>, part: &str) {
    match result.err() {
        Some(BackendError::Argument(text)) => assert!(text.contains(part), "`{part}` is not in: {text}"),
        other => panic!("expected a refusal that mentions `{part}`, got {other:?}"),
    }
}

/// Sizes around the pieces that blocks work on.
const SIZES: [usize; 5] = [1, 127, 1000, 1001, 5377];

#[test]
fn axpy_is_exact() {
    on_all(|backend| {
        for element in [Element::F32, Element::F64] {
            for n in SIZES {
                let kernels = backend.compile(&[axpy(backend.target(), element, n as u64)]).unwrap();
                let (x, y) = (sample(n, 1), sample(n, 2));
                let buffers = [
                    filled(backend, element, &x),
                    filled(backend, element, &y),
                    filled(backend, Element::F64, &[1.0 / 3.0]),
                ];
                backend.launch(kernels[0], &buffers).unwrap();
                let expected: Vec<f64> = match element {
                    Element::F32 => {
                        let alpha = (1.0_f64 / 3.0) as f32;
                        x.iter().zip(&y).map(|(&x, &y)| f64::from(alpha * x as f32 + y as f32)).collect()
                    }
                    _ => x.iter().zip(&y).map(|(&x, &y)| 1.0 / 3.0 * x + y).collect(),
                };
                assert_eq!(values(backend, buffers[1], n), expected, "{} {element:?} {n}", backend.describe());
                assert_eq!(values(backend, buffers[0], n), x, "the right-hand side is untouched");
            }
        }
    });
}

#[test]
fn sums_are_right_and_the_same_every_time() {
    on_all(|backend| {
        for element in [Element::F32, Element::F64] {
            for n in SIZES {
                let partials = blocks(backend.target(), n as u64) as usize;
                let kernels = backend.compile(&[dot(backend.target(), element, n as u64)]).unwrap();
                let (x, y) = (sample(n, 3), sample(n, 4));
                let (x, y) = (filled(backend, element, &x), filled(backend, element, &y));
                let out = filled(backend, Element::F64, &vec![f64::NAN; partials]);
                backend.launch(kernels[0], &[x, y, out]).unwrap();
                let first = values(backend, out, partials);
                let exact: f64 = sample(n, 3).iter().zip(&sample(n, 4)).map(|(x, y)| x * y).sum();
                let sum: f64 = first.iter().sum();
                assert!((sum - exact).abs() <= 1e-13 * n as f64, "{}: {sum} {exact}", backend.describe());
                backend.launch(kernels[0], &[x, y, out]).unwrap();
                assert_eq!(values(backend, out, partials), first, "two runs give the same bits");
            }
        }
    });
}

#[test]
fn host_sums_do_not_depend_on_the_number_of_threads() {
    let n = 100_000;
    let run = |threads| {
        let cache = Some(Arc::new(Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"))));
        let options = HostOptions { threads: Some(threads), cache, ..Default::default() };
        let mut backend = HostBackend::new(options).unwrap();
        let kernels = backend.compile(&[dot(Target::Host, Element::F64, n)]).unwrap();
        let partials = blocks(Target::Host, n) as usize;
        let (x, y) = (sample(n as usize, 5), sample(n as usize, 6));
        let (x, y) = (filled(&mut backend, Element::F64, &x), filled(&mut backend, Element::F64, &y));
        let out = filled(&mut backend, Element::F64, &vec![0.0; partials]);
        backend.launch(kernels[0], &[x, y, out]).unwrap();
        values(&mut backend, out, partials)
    };
    let one = run(1);
    assert!([2, 3, 16].into_iter().all(|threads| run(threads) == one));
}

#[test]
fn buffers_start_as_zeros_and_convert() {
    on_all(|backend| {
        for element in
            [Element::F32, Element::F64, Element::I16, Element::U16, Element::I32, Element::U32, Element::I64]
        {
            let buffer = backend.allocate(element, 5).unwrap();
            assert_eq!(values(backend, buffer, 5), [0.0; 5], "{element:?}");
            backend.write(buffer, &[3.0, 1.0]).unwrap();
            assert_eq!(values(backend, buffer, 3), [3.0, 1.0, 0.0], "{element:?}");
        }
        let f32s = filled(backend, Element::F32, &[0.1, f64::NAN, f64::INFINITY, 1e300]);
        let read = values(backend, f32s, 4);
        assert_eq!((read[0], read[2], read[3]), (f64::from(0.1_f32), f64::INFINITY, f64::INFINITY));
        assert!(read[1].is_nan());
        let lowest = filled(backend, Element::I16, &[-32768.0, 32767.0]);
        assert_eq!(values(backend, lowest, 2), [-32768.0, 32767.0]);
        let long = filled(backend, Element::I64, &[-9007199254740992.0]);
        assert_eq!(values(backend, long, 1), [-9007199254740992.0]);
        let empty = backend.allocate(Element::F64, 0).unwrap();
        assert!(values(backend, empty, 0).is_empty());
    });
}

#[test]
fn transfers_larger_than_any_staging_are_whole() {
    on_all(|backend| {
        let n = 1_000_000;
        let expected: Vec<f64> = (0..n).map(|i| (i * 7 % 1013) as f64).collect();
        for element in [Element::F32, Element::F64, Element::I32] {
            let buffer = filled(backend, element, &expected);
            assert!(values(backend, buffer, n) == expected, "{element:?}");
            backend.free(buffer);
        }
    });
}

#[test]
fn integers_that_do_not_fit_are_refused() {
    on_all(|backend| {
        for (element, value) in [
            (Element::U16, 70_000.0),
            (Element::U16, -1.0),
            (Element::I16, 32_768.0),
            (Element::I32, 0.5),
            (Element::I32, f64::NAN),
            (Element::U32, 4_294_967_296.0),
            (Element::I64, 9.3e18),
        ] {
            let buffer = backend.allocate(element, 2).unwrap();
            refused(backend.write(buffer, &[1.0, value]), "");
        }
    });
}

#[test]
fn arguments_are_checked() {
    on_all(|backend| {
        let n = 1001;
        let kernel = backend.compile(&[axpy(backend.target(), Element::F64, n)]).unwrap()[0];
        let x = backend.allocate(Element::F64, n).unwrap();
        let y = backend.allocate(Element::F64, n + 5).unwrap();
        let alpha = backend.allocate(Element::F64, 1).unwrap();
        let short = backend.allocate(Element::F64, n - 1).unwrap();
        let single = backend.allocate(Element::F32, n).unwrap();
        backend.launch(kernel, &[x, y, alpha]).unwrap();
        refused(backend.launch(kernel, &[x, y]), "2");
        refused(backend.launch(kernel, &[x, short, alpha]), "1001");
        refused(backend.launch(kernel, &[single, y, alpha]), "x");
        refused(backend.launch(kernel, &[y, y, alpha]), "one buffer");
        backend.free(x);
        refused(backend.launch(kernel, &[x, y, alpha]), "buffer");
        refused(backend.launch(kernel, &[BufferHandle(999), y, alpha]), "buffer 999");
        refused(backend.read(x, &mut [0.0]), "buffer");
        refused(backend.write(alpha, &[0.0, 1.0]), "2 values");
        refused(backend.read(alpha, &mut [0.0, 1.0]), "2 values");
        backend.release(&[kernel]);
        refused(backend.launch(kernel, &[short, y, alpha]), "no kernel");
    });
}

#[test]
fn kernels_that_are_not_well_formed_are_refused() {
    on_all(|backend| {
        let kernel = axpy(backend.target(), Element::F64, 10);
        refused(backend.compile(&[kernel.clone(), kernel.clone()]), "name");
        let mut broken = kernel;
        broken.body.remove(0);
        refused(backend.compile(&[broken]), "axpy");
    });
}

#[test]
fn recorded_launches_do_the_same_as_single_ones() {
    on_all(|backend| {
        let n = 1001;
        let target = backend.target();
        let kernels = backend.compile(&[axpy(target, Element::F64, n), dot(target, Element::F64, n)]).unwrap();
        let x = filled(backend, Element::F64, &sample(n as usize, 7));
        let alpha = filled(backend, Element::F64, &[0.25]);
        let out = backend.allocate(Element::F64, blocks(target, n)).unwrap();
        let ys = [0, 1].map(|_| filled(backend, Element::F64, &sample(n as usize, 8)));
        let list = |y| [(kernels[0], vec![x, y, alpha]), (kernels[1], vec![x, y, out])];
        for _ in 0..3 {
            for (kernel, args) in list(ys[0]) {
                backend.launch(kernel, &args).unwrap();
            }
        }
        let single = values(backend, out, blocks(target, n) as usize);
        let recorded = backend.record(&list(ys[1])).unwrap();
        let before = backend.counters().launches;
        for _ in 0..2 {
            backend.replay(&recorded).unwrap();
        }
        assert!(backend.time(&recorded).unwrap() > 0.0);
        assert_eq!(backend.counters().launches, before + 6);
        assert_eq!(values(backend, out, blocks(target, n) as usize), single);
        assert_eq!(values(backend, ys[1], n as usize), values(backend, ys[0], n as usize));
        // What is recorded reads buffers when it runs, not when it was recorded.
        backend.write(alpha, &[0.0]).unwrap();
        backend.replay(&recorded).unwrap();
        assert_eq!(values(backend, ys[1], n as usize), values(backend, ys[0], n as usize));
        backend.forget(recorded);
        refused(backend.record(&[(kernels[0], vec![x])]).and_then(|list| backend.replay(&list)), "1");
        backend.launch(kernels[0], &[x, ys[0], alpha]).unwrap();
    });
}

#[test]
fn nothing_is_left_behind() {
    on_all(|backend| {
        let n = 1001;
        let before = backend.counters();
        for _ in 0..20 {
            let target = backend.target();
            let kernels = backend.compile(&[axpy(target, Element::F64, n), dot(target, Element::F64, n)]).unwrap();
            let x = backend.allocate(Element::F64, n).unwrap();
            let y = backend.allocate(Element::F64, n).unwrap();
            let alpha = backend.allocate(Element::F64, 1).unwrap();
            let recorded = backend.record(&[(kernels[0], vec![x, y, alpha])]).unwrap();
            assert!(backend.counters().bytes >= before.bytes + (2 * n + 1) * 8);
            backend.replay(&recorded).unwrap();
            backend.forget(recorded);
            for buffer in [x, y, alpha] {
                backend.free(buffer);
            }
            backend.release(&kernels);
        }
        let after = backend.counters();
        let live = |counters: kernelwright::backend::Counters| (counters.modules, counters.buffers, counters.bytes);
        assert_eq!(live(after), live(before), "{}", backend.describe());
    });
}
