//! Points of Student's t distribution, the factors of two-sided intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The 97.5 % point of the standard normal distribution, which is the limit of [`t975`].
pub const Z975: f64 = 1.959_963_984_540_054;

/// Degrees of freedom from which the expansion is used. The two methods agree to 1e-12 there; far above it, `statrs` loses
/// digits and then does not converge.
const EXPANSION: f64 = 1000.0;

/// The 97.5 % point of Student's t with `freedom` degrees of freedom, which need not be an integer. Fewer than one and NaN
/// count as one, which gives the widest interval; infinity gives [`Z975`].
///
/// From 1000 degrees, by the asymptotic expansion of M. Abramowitz and I. Stegun, *Handbook of Mathematical Functions*,
/// 26.7.5, whose first omitted term, 0.73/`freedom`⁵, is below 1e-15 there; below, by inverting the distribution function
/// (`statrs`).
pub fn t975(freedom: f64) -> f64 {
    let freedom = freedom.max(1.0);
    if freedom >= EXPANSION {
        return expansion(freedom);
    }
    quantile(0.975, freedom)
}

/// The factor of the two-sided interval that misses the truth with probability `alpha`, with `freedom` degrees of freedom: fewer than
/// one count as one, more than 1000 as 1000, which makes the interval wider by less than a thousandth.
///
/// # Panics
/// If `alpha` is not between 0 and 1.
pub fn two_sided_t(alpha: f64, freedom: f64) -> f64 {
    assert!(0.0 < alpha && alpha < 1.0, "invalid probability {alpha}");
    quantile(1.0 - alpha / 2.0, freedom.clamp(1.0, EXPANSION))
}

/// The point below which the share `p` of the distribution lies.
fn quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).expect("one or more degrees of freedom are valid").inverse_cdf(p)
}

fn expansion(df: f64) -> f64 {
    let z = |n| Z975.powi(n);
    let g1 = (z(3) + z(1)) / 4.0;
    let g2 = (5.0 * z(5) + 16.0 * z(3) + 3.0 * z(1)) / 96.0;
    let g3 = (3.0 * z(7) + 19.0 * z(5) + 17.0 * z(3) - 15.0 * z(1)) / 384.0;
    let g4 = (79.0 * z(9) + 776.0 * z(7) + 1482.0 * z(5) - 1920.0 * z(3) - 945.0 * z(1)) / 92_160.0;
    z(1) + g1 / df + g2 / df.powi(2) + g3 / df.powi(3) + g4 / df.powi(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided 95 %, as printed in tables (Fisher and Yates; NIST/SEMATECH e-Handbook, 1.3.6.7.2).
    const TABLE: [(f64, f64); 43] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (11.0, 2.201),
        (12.0, 2.179),
        (13.0, 2.160),
        (14.0, 2.145),
        (15.0, 2.131),
        (16.0, 2.120),
        (17.0, 2.110),
        (18.0, 2.101),
        (19.0, 2.093),
        (20.0, 2.086),
        (21.0, 2.080),
        (22.0, 2.074),
        (23.0, 2.069),
        (24.0, 2.064),
        (25.0, 2.060),
        (26.0, 2.056),
        (27.0, 2.052),
        (28.0, 2.048),
        (29.0, 2.045),
        (30.0, 2.042),
        (31.0, 2.040),
        (32.0, 2.037),
        (35.0, 2.030),
        (40.0, 2.021),
        (45.0, 2.014),
        (50.0, 2.009),
        (60.0, 2.000),
        (80.0, 1.990),
        (90.0, 1.987),
        (100.0, 1.984),
        (120.0, 1.980),
        (1000.0, 1.962),
        (1e9, 1.960),
    ];

    #[test]
    fn it_is_the_tables_value_at_every_degree() {
        for (df, t) in TABLE {
            assert!((t975(df) - t).abs() <= 6e-4, "{df}: {} is not {t}", t975(df));
        }
    }

    /// Inverting the distribution function does not end for some large degrees of freedom, so the values are computed in a
    /// thread that is waited for only so long.
    #[test]
    fn it_ends_for_every_number() {
        let (send, values) = std::sync::mpsc::channel();
        let small = (0..2000).map(|i| 1.0 + f64::from(i) / 2.0);
        let large = (3..308).map(|power| 1.5 * 10f64.powi(power));
        let all: Vec<f64> = small.chain(large).chain([f64::MAX, f64::INFINITY]).collect();
        let freedoms = all.clone();
        std::thread::spawn(move || freedoms.iter().try_for_each(|freedom| send.send(t975(*freedom))));
        let mut last = f64::INFINITY;
        for freedom in all {
            let value = values.recv_timeout(std::time::Duration::from_secs(60));
            let value = value.unwrap_or_else(|_| panic!("no value for {freedom}"));
            assert!((Z975..=last).contains(&value), "{freedom}: {value} after {last}");
            last = value;
        }
        assert_eq!(last, Z975);
        for freedom in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0] {
            assert_eq!(t975(freedom), t975(1.0), "{freedom}");
        }
    }

    /// Fisher and Yates, *Statistical Tables*, table III.
    #[test]
    fn other_probabilities_have_the_tables_values() {
        for (alpha, df, t) in
            [(0.1, 2.0, 2.920), (0.02, 4.0, 3.747), (0.01, 11.0, 3.106), (0.001, 30.0, 3.646)]
        {
            assert!((two_sided_t(alpha, df) - t).abs() <= 6e-4, "{alpha}, {df}: {}", two_sided_t(alpha, df));
        }
        assert!((two_sided_t(0.05, 7.0) - t975(7.0)).abs() < 1e-9);
    }

    #[test]
    fn it_falls_without_a_step() {
        let mut last = f64::INFINITY;
        for i in 100..6000 {
            let t = t975(f64::from(i) / 100.0);
            assert!(t < last && t > Z975, "{i}: {t} after {last}");
            last = t;
        }
        assert!((t975(29.999_999) - t975(30.0)).abs() < 1e-4);
        assert!((t975(999.999_999) - t975(1000.0)).abs() < 1e-8);
        assert_eq!(t975(0.2), t975(1.0));
    }
}
