package poolwright.kv;

import java.util.List;

/**
 * Ordered bytes for bytes: what a storage engine has to offer. Any number of threads may call it at once, but
 * {@link #truncate} and {@link #close} only while nothing else is going on and no {@link Entries} is open; {@link Store}
 * sees to that, and to all that is about versions.
 */
interface Engine extends AutoCloseable {
    /** The longest key that every engine takes, in bytes; LMDB's is the least. */
    int LONGEST_KEY = 511;

    /** The record of a key, or null. */
    byte[] get(byte[] key);

    /** Adds or replaces. */
    void put(byte[] key, byte[] record);

    /** Adds or replaces all of these or, if it fails, none. No key is among them twice. */
    void putAll(List<Entry> entries);

    /** A key that is not there is no error. */
    void delete(byte[] key);

    /** All entries in the order of the keys' unsigned bytes. What is put or deleted meanwhile may be seen or not. */
    Entries entries();

    /** Removes every entry. */
    void truncate();

    /** Leaves nothing in memory that is not in the files. */
    @Override
    void close();

    /** Bytes for bytes. */
    record Entry(byte[] key, byte[] record) {}

    /** A way through the entries, of the thread that opened it; the first call of {@link #next} stands on the first entry. */
    interface Entries extends AutoCloseable {
        /** Steps on; false at the end. */
        boolean next();

        byte[] key();

        byte[] record();

        @Override
        void close();
    }
}
