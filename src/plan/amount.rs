//! Amounts of work and loads: whole numbers, once for each pattern of traffic.

/// Millionths: of one NATed stack stage for work and loads, of one packet for amounts.
pub(crate) type Micro = u64;

/// One, in [`Micro`].
pub(crate) const ONE: Micro = 1_000_000;

/// Patterns of traffic that a placement is judged by, at most.
pub(crate) const PATTERNS: usize = 3;

/// An amount in each pattern; zero in those that there are not.
pub(crate) type Each = [Micro; PATTERNS];

/// An amount in each pattern, by its number.
pub(crate) fn each(of: impl FnMut(usize) -> Micro) -> Each {
    std::array::from_fn(of)
}

/// What an amount is in a pattern.
pub(crate) fn within(amount: &Each, pattern: usize) -> Micro {
    amount.get(pattern).copied().unwrap_or(0)
}

/// Both together, pattern by pattern.
pub(crate) fn plus(a: &Each, b: &Each) -> Each {
    each(|p| within(a, p).saturating_add(within(b, p)))
}

/// The larger, pattern by pattern.
pub(crate) fn most(a: &Each, b: &Each) -> Each {
    each(|p| within(a, p).max(within(b, p)))
}

/// How good a placement is: the product of the largest loads of its patterns, so that the one with
/// the least has the highest geometric mean of the rates, which is what an experiment compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(u128);

impl Score {
    /// No load is told to be larger than this, so that a product of three has room.
    const MOST: Micro = 10_000 * ONE;

    /// Of the largest loads of so many patterns.
    pub(crate) fn of(largest: &Each, patterns: usize) -> Self {
        let loads = largest.iter().take(patterns);
        Self(loads.map(|l| u128::from((*l).clamp(1, Self::MOST))).product())
    }

    /// The same with every load multiplied by so many hundredths.
    pub(crate) fn stretched(self, hundredths: u64, patterns: usize) -> Self {
        let by = |n: u64| (0..patterns).map(|_| u128::from(n)).product::<u128>();
        Self(self.0.saturating_mul(by(hundredths)) / by(100))
    }

    /// The geometric mean of the loads.
    pub(crate) fn mean(self, patterns: usize) -> Micro {
        if patterns == 1 {
            return u64::try_from(self.0).unwrap_or(u64::MAX);
        }
        // By halving, in whole numbers: it is the same on every machine.
        let (mut low, mut high) = (0_u128, u128::from(Self::MOST) + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let power: u128 = (0..patterns).map(|_| middle).product();
            if power <= self.0 { low = middle } else { high = middle }
        }
        u64::try_from(low).unwrap_or(u64::MAX)
    }
}

/// A positive figure as [`Micro`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn micro(value: f64) -> Micro {
    if value.is_nan() { 0 } else { (value * ONE as f64).round().clamp(0.0, 1e15) as Micro }
}

/// `a` times `b`, both in millionths.
pub(crate) fn times(a: Micro, b: Micro) -> Micro {
    let product = u128::from(a) * u128::from(b) / u128::from(ONE);
    u64::try_from(product).unwrap_or(u64::MAX)
}
