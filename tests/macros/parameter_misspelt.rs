kernelwright::operator! {
    heat {
        grid cells [i: n];
        param tau;
        flux X[i+1/2] = u[i+1] - u;
        apply u => u - tau*div(X);
        boundary i: no_flux;
    }
}

fn main() {
    heat::system(heat::Sizes { n: 4 }, heat::Parameters { tua: 0.5 });
}
