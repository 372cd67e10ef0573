//! `bench read`: how fast MatrixMarket text is read.

use std::io::Read;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use rayon::ThreadPoolBuilder;
use serde_json::json;

use super::args::BenchArgs;
use super::bench_spmv::kinds;
use super::failure::Failure;
use super::out::Out;
use super::progress::seconds;
use crate::matrix::{Symmetry, file, matrix_market};

/// Scale of the generated matrix where none is asked for: some hundred megabytes of text.
const SCALE: f64 = 0.1;
/// Its kind, likewise.
const KIND: &str = "fem27";

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    let mut objects = Vec::new();
    for (name, text) in texts(args)? {
        let megabytes = text.len() as f64 / 1e6;
        out.line(format!("{name}: {megabytes:.1} MB of text"))?;
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = vec![1, all];
        threads.dedup();
        for threads in threads {
            let time = time(&text, threads, args.runs)?;
            let each = megabytes / time / threads as f64;
            out.line(format!("  {threads} threads  {}, {each:.0} MB/s a thread", seconds(time)))?;
            let bytes = text.len();
            objects.push(json!({ "file": name, "bytes": bytes, "threads": threads, "seconds": time, "megabytes_per_second_and_thread": each }));
        }
    }
    out.object(&json!({ "read": objects }))?;
    Ok(0)
}

/// Name and text of the file that is asked for, or of generated matrices.
fn texts(args: &BenchArgs) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    if let Some(path) = &args.run.compile.program.matrix.matrix {
        let name = path.display().to_string();
        let failed = |error: std::io::Error| Failure::Input(format!("{name}: {error}"));
        let mut text = std::fs::read(path).map_err(failed)?;
        if text.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            MultiGzDecoder::new(&text[..]).read_to_end(&mut plain).map_err(failed)?;
            text = plain;
        }
        return Ok(vec![(name.clone(), text)]);
    }
    let default = [KIND.to_string()];
    let names: &[String] = if args.kind.is_empty() { &default } else { &args.kind };
    let mut texts = Vec::new();
    for kind in kinds(names, args.scale.unwrap_or(SCALE))? {
        let mut text = Vec::new();
        matrix_market::write(&mut text, &kind.build(), Symmetry::General, &[])?;
        texts.push((kind.name.to_string(), text));
    }
    Ok(texts)
}

/// Seconds from text to compressed rows: the median.
fn time(text: &[u8], threads: usize, runs: u32) -> Result<f64, Failure> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::Internal(error.to_string()))?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let begin = Instant::now();
        let read = pool.install(|| file::from(text)).map_err(|error| Failure::Input(error.to_string()))?;
        times.push(begin.elapsed().as_secs_f64());
        drop(read);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
