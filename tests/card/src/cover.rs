//! Pairwise covering: few cases in which any two levels of any two factors meet.

/// Cases, one level per factor, such that every pair of levels that some valid case holds is in one of them.
///
/// Greedy and deterministic: each case is the valid one that covers most of what is left. `valid` decides whole cases.
pub fn pairwise(levels: &[usize], valid: &dyn Fn(&[usize]) -> bool) -> Vec<Vec<usize>> {
    let all = product(levels).into_iter().filter(|case| valid(case)).collect::<Vec<_>>();
    let width = levels.iter().copied().max().unwrap_or(0);
    let pairs = |case: &[usize]| {
        let mut pairs = Vec::new();
        for a in 0..case.len() {
            for b in a + 1..case.len() {
                pairs.push(((a * case.len() + b) * width + case[a]) * width + case[b]);
            }
        }
        pairs
    };
    let mut open = vec![false; levels.len() * levels.len() * width * width];
    all.iter().flat_map(|case| pairs(case)).for_each(|pair| open[pair] = true);
    let mut chosen = Vec::new();
    loop {
        let gain = |case: &Vec<usize>| pairs(case).into_iter().filter(|pair| open[*pair]).count();
        // The first of the best, so that the order of the cases decides ties.
        let best = all.iter().rev().max_by_key(|case| gain(case));
        match best {
            Some(case) if gain(case) > 0 => {
                let case = case.clone();
                pairs(&case).into_iter().for_each(|pair| open[pair] = false);
                chosen.push(case);
            }
            _ => return chosen,
        }
    }
}

fn product(levels: &[usize]) -> Vec<Vec<usize>> {
    levels.iter().fold(vec![Vec::new()], |cases, count| {
        cases.iter().flat_map(|case| (0..*count).map(|level| [case.as_slice(), &[level]].concat())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_valid_pair_is_in_a_case_and_few_cases_suffice() {
        let levels = [3, 4, 2, 5];
        let valid = |case: &[usize]| case[0] != 1 || case[1] < 2;
        let cases = pairwise(&levels, &valid);
        assert!(cases.iter().all(|case| valid(case)));
        for (a, b) in (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b))) {
            for (x, y) in (0..levels[a]).flat_map(|x| (0..levels[b]).map(move |y| (x, y))) {
                let possible = (a, b) != (0, 1) || x != 1 || y < 2;
                let covered = cases.iter().any(|case| case[a] == x && case[b] == y);
                assert_eq!(covered, possible, "levels {x} of {a} and {y} of {b}");
            }
        }
        assert!(cases.len() <= 30, "{}", cases.len());
    }
}
