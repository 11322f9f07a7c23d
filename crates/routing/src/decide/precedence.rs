//! What ranks before any score: the target, the position in `provider.order`, how well preferences are met.

/// Bits of the grade.
const GRADE_BITS: u32 = 8;
const GRADE_MASK: u64 = (1 << GRADE_BITS) - 1;

/// Rank before any score, the lowest first: by group, then by position in `provider.order`, then by grade. It is compared more
/// often than anything else, so it is one integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Precedence(u64);

impl Precedence {
    /// Ranks after every candidate. Its grade is not 0.
    pub(crate) const NOBODY: Precedence = Precedence(u64::MAX);

    /// Of a group, before order and preferences: candidates of the same target, or all if models compete.
    pub(crate) const fn of_group(group: u32) -> Precedence {
        Precedence((group as u64) << u32::BITS)
    }

    /// Of a recorded candidate.
    pub(crate) const fn of_record(group: u32, tier: u32) -> Precedence {
        Precedence(Precedence::of_group(group).0 | tier as u64)
    }

    /// With this position in `provider.order` and this grade.
    pub(crate) fn with_preferences(self, order_position: usize, grade: u32) -> Precedence {
        let order_position = u32::try_from(order_position).unwrap_or(u32::MAX).min(u32::MAX >> GRADE_BITS);
        Precedence::of_record(self.group(), order_position << GRADE_BITS).with_grade(grade)
    }

    /// With this grade.
    pub(crate) fn with_grade(self, grade: u32) -> Precedence {
        Precedence(self.without_grade().0 | (u64::from(grade) & GRADE_MASK))
    }

    /// With grade 0: what only those share that neither a target nor `provider.order` separates.
    pub(crate) const fn without_grade(self) -> Precedence {
        Precedence(self.0 & !GRADE_MASK)
    }

    pub(crate) const fn group(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    /// Position in `provider.order` and grade in one number, as it is recorded.
    pub(crate) const fn tier(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn grade(self) -> u32 {
        position_and_grade(self.tier()).1
    }
}

/// Position in `provider.order` and grade of a recorded tier.
pub const fn position_and_grade(tier: u32) -> (u32, u32) {
    (tier >> GRADE_BITS, tier & GRADE_MASK as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_group_ranks_before_the_order_and_the_order_before_the_grade(
            one in (0..4_u32, 0..4_usize, 0..=255_u32),
            other in (0..4_u32, 0..4_usize, 0..=255_u32),
        ) {
            let of = |(group, position, grade)| Precedence::of_group(group).with_preferences(position, grade);
            prop_assert_eq!(of(one).cmp(&of(other)), one.cmp(&other));
        }

        #[test]
        fn what_is_recorded_gives_the_same_rank(group: u32, position: usize, grade in 0..=255_u32) {
            let precedence = Precedence::of_group(group).with_preferences(position, grade);
            prop_assert_eq!(Precedence::of_record(precedence.group(), precedence.tier()), precedence);
            let most = (u32::MAX >> GRADE_BITS) as usize;
            prop_assert_eq!(position_and_grade(precedence.tier()), (position.min(most) as u32, grade));
            prop_assert_eq!(precedence.group(), group);
            prop_assert_eq!(precedence.without_grade().with_grade(grade), precedence);
        }
    }
}
