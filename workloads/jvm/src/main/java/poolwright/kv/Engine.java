package poolwright.kv;

import java.util.List;

/**
 * The interface of a storage engine: an ordered map of byte strings. It is thread-safe, but {@link #truncate} and
 * {@link #close} may be called only while no other call is in progress and no {@link Entries} is open. {@link Store} ensures
 * this, and handles versions.
 */
interface Engine extends AutoCloseable {
    /** The longest key in bytes that every engine supports; LMDB has the lowest limit. */
    int LONGEST_KEY = 511;

    /** Returns the record of a key, or null. */
    byte[] get(byte[] key);

    /** Adds or replaces a record. */
    void put(byte[] key, byte[] record);

    /** Adds or replaces all of these records or, on failure, none. Keys must be unique. */
    void putAll(List<Entry> entries);

    /** Deletes a record if it exists. */
    void delete(byte[] key);

    /** Returns all entries in the order of the keys' unsigned bytes. Concurrent changes may be visible or not. */
    Entries entries();

    /** Removes every entry. */
    void truncate();

    /** Writes all data in memory to the files. */
    @Override
    void close();

    /** A key and its record. */
    record Entry(byte[] key, byte[] record) {}

    /** An iterator over the entries for the thread that opened it; the first call of {@link #next} moves to the first entry. */
    interface Entries extends AutoCloseable {
        /** Moves to the next entry; returns false at the end. */
        boolean next();

        byte[] key();

        byte[] record();

        @Override
        void close();
    }
}
