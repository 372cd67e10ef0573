//! An operator declared in Rust: its sizes, parameters and arrays are checked by the Rust compiler.

use kernelwright::solve::Inputs;

kernelwright::operator! {
    /// Steady diffusion with decay; conductivity is an array from outside.
    seepage {
        grid cells [i: nx, j: ny];
        param decay;
        data kappa[i, j];
        flux X[i+1/2] = 2*kappa*kappa[i+1]/(kappa + kappa[i+1]) * (u[i+1] - u);
        flux Y[j+1/2] = 2*kappa*kappa[j+1]/(kappa + kappa[j+1]) * (u[j+1] - u);
        apply u => decay*u - (div(X) + div(Y));
        boundary i, j: no_flux;
        claim symmetric;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (nx, ny) = (48, 32);
    let system = seepage::system(seepage::Sizes { nx, ny }, seepage::Parameters { decay: 1e-2 });
    let mut solver = system.solver("pcg").preconditioner("line(j)").tolerance(1e-9).compile()?;

    // A channel of high conductivity through rock, and a spring at its left end.
    let kappa: Vec<f64> = (0..nx * ny).map(|n| if (12..20).contains(&(n / nx)) { 1.0 } else { 1e-3 }).collect();
    let spring: Vec<f64> = (0..nx * ny).map(|n| if n % nx == 0 && n / nx == 16 { 1.0 } else { 0.0 }).collect();
    let solution = solver.solve(&Inputs::new().data("kappa", &kappa).rhs(&spring))?;

    let along =
        |j: usize| (0..nx).step_by(8).map(|i| format!("{:9.2e}", solution.values[j * nx + i])).collect::<Vec<_>>();
    println!("{} after {} iterations", solution.report.outcome.name(), solution.report.iterations);
    println!("in the channel {}", along(16).join(" "));
    println!("in the rock    {}", along(4).join(" "));
    Ok(())
}
