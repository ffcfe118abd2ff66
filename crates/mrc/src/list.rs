//! Doubly linked lists of numbered elements.

/// Stands for no element or slot.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours of an element on its list; 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    /// The element that was pushed after this one.
    pub newer: u32,
    /// The element that was pushed before this one.
    pub older: u32,
}

impl Links {
    /// On no list.
    pub const UNLINKED: Links = Links { newer: NONE, older: NONE };
}

/// Elements that can be on lists. An element is on one list at a time.
pub(crate) trait Linked {
    /// The links of an element.
    fn links(&mut self, id: u32) -> &mut Links;
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub newest: u32,
    pub oldest: u32,
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE }
    }
}

impl List {
    /// Makes an element the newest.
    pub fn push<L: Linked>(&mut self, elements: &mut L, id: u32) {
        self.join(elements, self.newest, id);
        self.join(elements, id, NONE);
    }

    /// Takes an element off the list.
    pub fn remove<L: Linked>(&mut self, elements: &mut L, id: u32) {
        let Links { newer, older } = *elements.links(id);
        self.join(elements, older, newer);
    }

    /// Replaces an element with `other`.
    pub fn replace<L: Linked>(&mut self, elements: &mut L, id: u32, other: u32) {
        let Links { newer, older } = *elements.links(id);
        self.join(elements, older, other);
        self.join(elements, other, newer);
    }

    /// Makes two elements neighbours; [`NONE`] stands for an end of the list.
    fn join<L: Linked>(&mut self, elements: &mut L, older: u32, newer: u32) {
        match older {
            NONE => self.oldest = newer,
            older => elements.links(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => elements.links(newer).older = older,
        }
    }
}
