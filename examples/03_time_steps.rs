//! Marches the heat equation in time: kernels are compiled once, every step changes the right-hand side, and the step
//! length changes on the way.

use kernelwright::solve::Inputs;

kernelwright::operator! {
    /// One implicit step: (1 - dt Laplacian) u = u_old.
    heat {
        grid cells [i: n];
        param dt;
        flux X[i+1/2] = n*n*(u[i+1] - u);
        apply u => u - dt*div(X);
        boundary i: no_flux;
        claim symmetric, positive_definite;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n = 200;
    let mut solver = heat::system(heat::Sizes { n }, heat::Parameters { dt: 1e-5 })
        .solver("pcg")
        .preconditioner("line(i)")
        .tolerance(1e-10)
        .compile()?;

    // A warm half: the mean is kept by every step, the rest fades.
    let mut u: Vec<f64> = (0..n).map(|i| if i < n / 2 { 1.0 } else { 0.0 }).collect();
    let (mut time, mut dt) = (0.0, 1e-5);
    for step in 1..=60 {
        let old = u.clone();
        let report = solver.solve_into(&Inputs::new().param("dt", dt).rhs(&old).guess_previous(), &mut u)?;
        if !report.outcome.is_converged() {
            return Err(format!("step {step}: {}", report.outcome.name()).into());
        }
        time += dt;
        dt *= 1.15;
        if step % 10 == 0 {
            let mean = u.iter().sum::<f64>() / n as f64;
            println!("t = {time:.5}   mean {mean:.10}   ends {:.4} and {:.4}", u[0], u[n - 1]);
        }
    }
    Ok(())
}
