package poolwright.kv;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicReference;
import org.HdrHistogram.Histogram;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;

/** One thread's timed operations on the store; results are compared with the expected data. */
final class Client {
    /** Number of the only node of the cluster. */
    private static final int NODE = 1;
    /** One of this many reads is compared byte by byte: generating the value costs as much as a read from a cache. */
    private static final int COMPARED = 64;

    private final StoreAccess store;
    private final DataSet data;
    private final SplittableRandom random;
    private final Histogram gets;
    private final Histogram puts;
    private final Histogram deletes;
    private final AtomicReference<Throwable> failure;
    private long reads;

    /** The first failure of any thread; after it no operation is started. */
    Client(
            StoreAccess store,
            DataSet data,
            SplittableRandom random,
            Latencies latencies,
            AtomicReference<Throwable> failure) {
        this.failure = failure;
        this.store = store;
        this.data = data;
        this.random = random;
        gets = latencies.of("get");
        puts = latencies.of("put");
        deletes = latencies.of("delete");
    }

    SplittableRandom random() {
        return random;
    }

    /** Reads an entry that must exist. */
    void read(long number) {
        if (get(number).isEmpty()) {
            throw new Failure("entry " + number
                    + " is not in the store: load it first, with the same data and seed, and at least as many entries");
        }
    }

    /** Reads an entry that may have been deleted. */
    void look(long number) {
        get(number);
    }

    private List<Versioned> get(long number) {
        goOn();
        byte[] key = data.key(number);
        long began = System.nanoTime();
        List<Versioned> found = store.get(key);
        gets.recordValue(System.nanoTime() - began);
        if (reads++ % COMPARED == 0) {
            found.forEach(version -> compare(data, number, version));
        }
        return found;
    }

    /** Replaces an entry, like a client that has read it. */
    void update(long number) {
        List<Versioned> found = get(number);
        write(List.of(version(number, found.isEmpty() ? VectorClock.EMPTY : found.get(0).clock())));
    }

    /** Adds a batch of new entries; returns the bytes of keys and values. The latency is that of the batch. */
    long load(long... numbers) {
        List<StoreAccess.Put> batch = new ArrayList<>(numbers.length);
        long bytes = 0;
        for (long number : numbers) {
            StoreAccess.Put put = version(number, VectorClock.EMPTY);
            batch.add(put);
            bytes += put.key().length + put.added().value().length;
        }
        write(batch);
        return bytes;
    }

    /** The clock counts the changes, so the value identifies its change. */
    private StoreAccess.Put version(long number, VectorClock over) {
        VectorClock clock = over.writtenBy(NODE, System.currentTimeMillis());
        return new StoreAccess.Put(data.key(number), new Versioned(data.value(number, clock.count(NODE) - 1), clock));
    }

    private void goOn() {
        if (failure.get() != null) {
            throw new Failure("another thread failed");
        }
    }

    private void write(List<StoreAccess.Put> batch) {
        goOn();
        long began = System.nanoTime();
        try {
            store.putAll(batch);
        } catch (ObsoleteVersion lost) {
            // Another thread has written it since we read it; a client would read it again, and we continue.
        }
        puts.recordValue(System.nanoTime() - began);
    }

    void delete(long number) {
        List<Versioned> found = get(number);
        if (!found.isEmpty()) {
            byte[] key = data.key(number);
            long began = System.nanoTime();
            store.delete(key, found.get(0).clock());
            deletes.recordValue(System.nanoTime() - began);
        }
    }

    static void compare(DataSet data, long number, Versioned found) {
        if (!Arrays.equals(found.value(), data.value(number, found.clock().count(NODE) - 1))) {
            throw new Failure("entry " + number + " does not contain the bytes that were written; the database is damaged");
        }
    }
}
