//! CUDA: what can be tested without a card (NVRTC, interpretation of CUDA kernels), and more with one.

use crate::backend_kernels::{LANES, axpy, dot, filled, much_shared, neighbours, sample, values};
use kernelwright::backend::build::Stop;
use kernelwright::backend::cuda::nvrtc::{Form, Nvrtc};
use kernelwright::backend::cuda::{self, CudaBackend, CudaOptions};
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::{Arithmetic, Backend, BackendError, Target, VectorMut, VectorRef};
use kernelwright::bandwidth::{self, Pattern};
use kernelwright::cache::Cache;
use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::print;
use std::sync::Arc;

/// Whether NVRTC is there; says so if not.
fn nvrtc() -> bool {
    let found = Nvrtc::find();
    match &found {
        Ok(nvrtc) => println!("NVRTC {:?} at {:?}", nvrtc.version, nvrtc.path),
        Err(why) => println!("skipped: {why}"),
    }
    found.is_ok()
}

fn device() -> Option<CudaBackend> {
    let cache = Some(Arc::new(Cache::none()));
    match CudaBackend::new(CudaOptions { cache, ..Default::default() }) {
        Ok(backend) => Some(backend),
        Err(BackendError::Unavailable(why)) => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn kernels() -> Vec<Kernel> {
    vec![
        axpy(Target::Cuda, Element::F32, 1000),
        dot(Target::Cuda, Element::F64, 1000),
        neighbours(4),
        much_shared(10_000),
        bandwidth::kernel(Target::Cuda, Pattern::Copy, 1 << 14),
        bandwidth::kernel(Target::Cuda, Pattern::Triad, 1 << 32),
    ]
}

#[test]
fn nvrtc_compiles_without_a_card() {
    if !nvrtc() {
        return;
    }
    let names: Vec<String> = kernels().iter().map(|kernel| kernel.name.clone()).collect();
    for architecture in [80, 90, 100] {
        for arithmetic in [Arithmetic::Contracted, Arithmetic::Strict] {
            let compiled = cuda::compile_only(&print::cuda(&kernels()), architecture, arithmetic).unwrap();
            assert!(compiled.image.starts_with(b"\x7fELF"), "a CUBIN is an ELF file");
            let mut reported: Vec<String> = compiled.resources.iter().map(|used| used.kernel.clone()).collect();
            reported.sort();
            let mut expected = names.clone();
            expected.sort();
            assert_eq!(reported, expected, "{}", compiled.log);
            for used in &compiled.resources {
                assert!(used.registers > 0 && used.spill_stores == 0, "sm_{architecture}: {used:?}");
            }
            let dot = compiled.resources.iter().find(|used| used.kernel == "dot").unwrap();
            assert_eq!(u64::from(dot.shared_bytes), LANES * 8);
        }
    }
}

#[test]
fn arithmetic_reaches_nvrtc() {
    if !nvrtc() {
        return;
    }
    let source = print::cuda(&[axpy(Target::Cuda, Element::F64, 1000)]);
    let found = Nvrtc::find().unwrap();
    let ptx = |arithmetic| {
        let options = Nvrtc::options(90, Form::Ptx, arithmetic);
        String::from_utf8(found.compile(&source, "axpy", &options, Form::Ptx, &Stop::default()).unwrap().image).unwrap()
    };
    assert!(ptx(Arithmetic::Contracted).contains("fma.rn.f64"));
    let strict = ptx(Arithmetic::Strict);
    assert!(!strict.contains("fma.rn.f64") && strict.contains("mul.rn.f64") && strict.ends_with('\0'), "{strict}");
}

#[test]
fn nvrtc_says_what_is_wrong() {
    if !nvrtc() {
        return;
    }
    match cuda::compile_only("extern \"C\" __global__ void broken() {\n  nonsense;\n}\n", 90, Arithmetic::Strict) {
        Err(BackendError::Compile { language: "CUDA C++", log }) => {
            assert!(log.contains("unit.cu(2)") && log.contains("nonsense"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    for bad in ["int a;\0", "#include <no_such_header>\n"] {
        assert!(matches!(cuda::compile_only(bad, 90, Arithmetic::Strict), Err(BackendError::Compile { .. })));
    }
    match cuda::compile_only("", 12, Arithmetic::Strict) {
        Err(BackendError::Unavailable(text)) => assert!(text.contains("sm_12") && text.contains("sm_90"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_architecture_is_one_that_nvrtc_knows() {
    let nvrtc = Nvrtc { version: (13, 0), architectures: vec![75, 80, 86, 90, 100, 120], path: None };
    assert_eq!(nvrtc.choose(90), Some((90, Form::Cubin)));
    assert_eq!(nvrtc.choose(89), Some((86, Form::Cubin)));
    assert_eq!(nvrtc.choose(103), Some((100, Form::Cubin)));
    assert_eq!(nvrtc.choose(110), Some((100, Form::Ptx)));
    assert_eq!(nvrtc.choose(130), Some((120, Form::Ptx)));
    assert_eq!(nvrtc.choose(70), None);
}

#[test]
fn a_missing_driver_is_said_and_does_not_panic() {
    match (cuda::survey(), CudaBackend::new(CudaOptions::default())) {
        (Err(BackendError::Unavailable(survey)), Err(BackendError::Unavailable(open))) => {
            assert_eq!(survey, open);
            assert!(open.contains("driver"), "{open}");
        }
        (Ok(survey), opened) => {
            assert!(!survey.devices.is_empty());
            assert!(opened.is_ok() || Nvrtc::find().is_err());
            let beyond = CudaOptions { device: survey.devices.len(), ..Default::default() };
            assert!(matches!(CudaBackend::new(beyond), Err(BackendError::Unavailable(_))));
        }
        (survey, _) => panic!("{survey:?}"),
    }
}

/// Checks kernels whose blocks wait for each other, or need much shared memory, on a back end.
fn check_blocks(backend: &mut dyn Backend) {
    let n = 8;
    let kernel = backend.compile(&[neighbours(n)]).unwrap()[0];
    let mail = backend.allocate(Element::I32, n).unwrap();
    let seen = backend.allocate(Element::I32, n).unwrap();
    for _ in 0..3 {
        backend.launch(kernel, &[mail, seen]).unwrap();
    }
    assert_eq!(values(backend, seen, n as usize), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
    // 80 kB of shared memory a block: more than may be declared.
    let kernel = backend.compile(&[much_shared(10_000)]).unwrap()[0];
    let x = sample(LANES as usize, 10);
    let (from, to) = (filled(backend, Element::F64, &x), backend.allocate(Element::F64, LANES).unwrap());
    backend.launch(kernel, &[from, to]).unwrap();
    let mirrored: Vec<f64> = x.iter().rev().copied().collect();
    assert_eq!(values(backend, to, LANES as usize), mirrored);
}

#[test]
fn blocks_wait_for_each_other_and_share_memory() {
    check_blocks(&mut InterpBackend::new(InterpOptions { target: Target::Cuda, ..Default::default() }));
    if let Some(mut backend) = device() {
        check_blocks(&mut backend);
    }
}

#[test]
fn a_device_tells_what_kernels_use() {
    let Some(mut backend) = device() else { return };
    println!("{} {:?}", backend.describe(), backend.facts());
    let handles = backend.compile(&[dot(Target::Cuda, Element::F64, 1000), much_shared(10_000)]).unwrap();
    let info = backend.kernel_info(handles[0]).unwrap();
    assert!(info.name == "dot" && info.registers > 0 && u64::from(info.shared_bytes) == LANES * 8, "{info:?}");
    assert!(info.blocks_per_multiprocessor > 1 && info.occupancy > 0.0 && info.occupancy <= 1.0, "{info:?}");
    let info = backend.kernel_info(handles[1]).unwrap();
    assert_eq!(info.shared_bytes, 80_000, "{info:?}");
}

#[test]
fn a_device_refuses_what_it_has_no_room_for() {
    let Some(mut backend) = device() else { return };
    match backend.allocate(Element::F64, 1 << 45) {
        Err(BackendError::TooLarge(text)) => assert!(text.contains("f64") && text.contains("free"), "{text}"),
        other => panic!("{other:?}"),
    }
    match backend.compile(&[neighbours(1_000_000)]) {
        Err(BackendError::TooLarge(text)) => assert!(text.contains("fit at once"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(backend.counters().modules, 0, "a refused unit is unloaded");
    backend.compile(&[axpy(Target::Cuda, Element::F64, 100)]).unwrap();
}

/// Vectors that somebody else has on the device are taken from and given to there.
#[test]
fn vectors_of_the_caller_stay_on_the_device() {
    let Some(mut backend) = device() else { return };
    let x = sample(1000, 12);
    let (theirs, ours) = (filled(&mut backend, Element::F64, &x), backend.allocate(Element::F64, 1000).unwrap());
    let mut vector = backend.lend(theirs).unwrap();
    backend.write_from(ours, VectorRef::Device(&vector)).unwrap();
    assert_eq!(values(&mut backend, ours, 1000), x);
    backend.write(ours, &vec![0.5; 1000]).unwrap();
    backend.read_into(ours, VectorMut::Device(&mut vector)).unwrap();
    assert_eq!(values(&mut backend, theirs, 1000), vec![0.5; 1000]);
    let single = backend.allocate(Element::F32, 1000).unwrap();
    let refused = backend.write_from(single, VectorRef::Device(&vector));
    assert!(matches!(refused, Err(BackendError::Argument(text)) if text.contains("f32")));
    let short = backend.allocate(Element::F64, 999).unwrap();
    assert!(matches!(backend.write_from(short, VectorRef::Device(&vector)), Err(BackendError::Argument(_))));
    let itself = backend.write_from(theirs, VectorRef::Device(&vector));
    assert!(matches!(itself, Err(BackendError::Argument(text)) if text.contains("lies in")));
    backend.free(theirs);
    backend.write_from(ours, VectorRef::Device(&vector)).unwrap();
    assert_eq!(values(&mut backend, ours, 1000), vec![0.5; 1000], "a freed buffer lives while it is lent");
    let buffers = backend.counters().buffers;
    drop(vector);
    assert_eq!(backend.counters().buffers, buffers - 1);
}

#[test]
fn a_device_has_bandwidth() {
    let Some(mut backend) = device() else { return };
    for pattern in [Pattern::Copy, Pattern::Triad] {
        let measured = bandwidth::measure(&mut backend, pattern, bandwidth::sensible_bytes(Target::Cuda)).unwrap();
        println!("{pattern:?}: {:.0} GB/s", measured.bytes_per_second / 1e9);
        assert!(measured.bytes_per_second > 1e10, "{measured:?}");
    }
    assert_eq!(backend.counters().buffers, 0);
}

#[test]
fn the_interpreter_has_no_bandwidth_and_takes_no_large_buffers() {
    let mut backend = InterpBackend::new(InterpOptions::default());
    assert!(matches!(bandwidth::measure(&mut backend, Pattern::Copy, 1 << 20), Err(BackendError::TooLarge(_))));
    match backend.allocate(Element::F64, 1 << 21) {
        Err(BackendError::TooLarge(text)) => assert!(text.contains("2097152") && text.contains("host"), "{text}"),
        other => panic!("{other:?}"),
    }
    let cuda = &mut InterpBackend::new(InterpOptions { target: Target::Cuda, ..Default::default() });
    let n = 1 << 12;
    for pattern in [Pattern::Copy, Pattern::Triad] {
        let kernel = cuda.compile(&[bandwidth::kernel(Target::Cuda, pattern, n)]).unwrap()[0];
        let a = sample(n as usize, 11);
        let mut buffers: Vec<_> = (1..pattern.arrays()).map(|_| filled(cuda, Element::F64, &a)).collect();
        buffers.push(cuda.allocate(Element::F64, n).unwrap());
        cuda.launch(kernel, &buffers).unwrap();
        let factor = if pattern == Pattern::Copy { 1.0 } else { 4.0 };
        let result = values(cuda, buffers[pattern.arrays() - 1], n as usize);
        assert!(result.iter().zip(&a).all(|(&c, &a)| (c - factor * a).abs() < 1e-15), "{pattern:?}");
    }
}
