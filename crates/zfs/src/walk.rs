//! The order in which the vdevs of a pool are listed.

/// The nodes of trees with their depths: each before the nodes below it.
pub(crate) fn walk<T>(roots: &[T], children: fn(&T) -> &[T]) -> impl Iterator<Item = (usize, &T)> {
    let mut rest: Vec<(usize, &T)> = roots.iter().rev().map(|root| (0, root)).collect();
    std::iter::from_fn(move || {
        let (depth, node) = rest.pop()?;
        rest.extend(children(node).iter().rev().map(|child| (depth + 1, child)));
        Some((depth, node))
    })
}
