package poolwright.kv;

import java.util.List;

/** The calls of a store's client: made on the store itself, or through a socket. */
interface StoreAccess {
    /** Returns all versions of a key; none if it does not exist. */
    List<Versioned> get(byte[] key);

    /** Adds all of these in one write of the engine, or none if one of them is obsolete. Keys must be unique. */
    void putAll(List<Put> puts) throws ObsoleteVersion;

    /** Removes the version {@code clock} and those from which it descends. Returns whether there were any. */
    boolean delete(byte[] key, VectorClock clock);

    /** A version to be added. */
    record Put(byte[] key, Versioned added) {}
}
