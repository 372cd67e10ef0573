//! `convert`: a matrix from one file format to another.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::args::ConvertArgs;
use super::failure::Failure;
use super::out::Out;
use crate::matrix::{Matrix, file, matrix_market, npz};

pub(super) fn run(args: &ConvertArgs, out: &mut Out) -> Result<u8, Failure> {
    let target = Target::of(&args.to)?;
    let matrix = file::read(&args.from).map_err(Failure::Input)?;
    matrix.notes().iter().for_each(|note| eprintln!("note: {note}"));
    let vectors = &matrix.vectors;
    if !(vectors.right_hand_sides.is_empty() && vectors.guesses.is_empty() && vectors.solutions.is_empty()) {
        eprintln!("note: the vectors of the file are left out, the matrix is converted");
    }
    save(&args.to, target, &matrix).map_err(|error| Failure::Input(format!("{}: {error}", args.to.display())))?;
    let (rows, columns, entries) = (matrix.csr.rows(), matrix.csr.columns(), matrix.csr.entries());
    out.line(format!("{}: {rows} x {columns}, {entries} entries", args.to.display()))?;
    out.object(&json!({
        "from": args.from.display().to_string(),
        "to": args.to.display().to_string(),
        "form": matrix.form,
        "rows": rows,
        "columns": columns,
        "entries": entries,
        "notes": matrix.notes(),
    }))?;
    Ok(0)
}

#[derive(Debug, Clone, Copy)]
enum Target {
    MatrixMarket,
    Compressed,
    Npz,
}

impl Target {
    fn of(path: &Path) -> Result<Target, Failure> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let kinds = [(".mtx", Target::MatrixMarket), (".mtx.gz", Target::Compressed), (".npz", Target::Npz)];
        let found = kinds.into_iter().find(|(end, _)| name.ends_with(end));
        let refuse = || Failure::Usage(format!("{}: .mtx, .mtx.gz and .npz can be written", path.display()));
        found.map(|(_, target)| target).ok_or_else(refuse)
    }
}

/// Written aside and renamed: a failure leaves no half of a file, nor damages what was there.
fn save(path: &Path, target: Target, matrix: &Matrix) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kernelwright-");
    // Temporary files are for their owner only; this one becomes an ordinary file (the umask still applies).
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let aside = builder.tempfile_in(folder)?;
    write(BufWriter::with_capacity(1 << 20, aside.as_file()), target, matrix)?;
    aside.persist(path).map(|_| ()).map_err(|error| error.error)
}

fn write(mut file: impl Write, target: Target, matrix: &Matrix) -> io::Result<()> {
    let comment: Vec<String> = matrix.title.iter().cloned().collect();
    match target {
        Target::MatrixMarket => matrix_market::write(file, &matrix.csr, matrix.symmetry, &comment),
        Target::Compressed => {
            let mut encoder = GzEncoder::new(&mut file, Compression::default());
            matrix_market::write(&mut encoder, &matrix.csr, matrix.symmetry, &comment)?;
            encoder.finish()?;
            file.flush()
        }
        Target::Npz => npz::write(file, &matrix.csr),
    }
}
