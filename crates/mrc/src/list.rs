//! Doubly linked lists through elements that have numbers.

/// In place of a number: no element.
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
        *elements.links(id) = Links { newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = id,
            newest => elements.links(newest).newer = id,
        }
        self.newest = id;
    }

    /// Takes an element off the list.
    pub fn remove<L: Linked>(&mut self, elements: &mut L, id: u32) {
        let Links { newer, older } = *elements.links(id);
        self.join(elements, older, newer);
        self.join_back(elements, newer, older);
    }

    /// Puts `other` in the place of an element.
    pub fn replace<L: Linked>(&mut self, elements: &mut L, id: u32, other: u32) {
        let links = *elements.links(id);
        *elements.links(other) = links;
        self.join(elements, links.older, other);
        self.join_back(elements, links.newer, other);
    }

    /// Makes `newer` the newer neighbour of `id`, or the oldest of the list.
    fn join<L: Linked>(&mut self, elements: &mut L, id: u32, newer: u32) {
        match id {
            NONE => self.oldest = newer,
            id => elements.links(id).newer = newer,
        }
    }

    /// Makes `older` the older neighbour of `id`, or the newest of the list.
    fn join_back<L: Linked>(&mut self, elements: &mut L, id: u32, older: u32) {
        match id {
            NONE => self.newest = older,
            id => elements.links(id).older = older,
        }
    }
}
