kernelwright::operator! {
    heat {
        grid cells [i: n];
        param tau, kappa;
        flux X[i+1/2] = kappa*(u[i+1] - u);
        apply u => u - tau*div(X);
        boundary i: no_flux;
    }
}

fn main() {
    heat::system(heat::Sizes { n: 4 }, heat::Parameters { tau: 0.5 });
}
