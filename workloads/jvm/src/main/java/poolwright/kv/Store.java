package poolwright.kv;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.StampedLock;
import poolwright.driver.Failure;
import poolwright.kv.VectorClock.Order;

/**
 * The versioned store on one engine. A key has every version from which no other version descends: usually one, and several
 * after concurrent writes, until a put descends from all of them.
 */
final class Store implements StoreAccess, AutoCloseable {
    private final Engine engine;
    private final ReentrantLock[] stripes;
    /** Null if the callers' threads do the work. */
    private final ExecutorService pool;
    /** Read lock: an engine call is in progress. Write lock: the files are being replaced. */
    private final StampedLock replacing = new StampedLock();

    private Store(Engine engine, Settings settings) {
        this.engine = engine;
        stripes = new ReentrantLock[settings.whole(Setting.STRIPES)];
        Arrays.setAll(stripes, number -> new ReentrantLock());
        int threads = settings.whole(Setting.POOL_SIZE);
        pool = threads == 0 ? null : Executors.newFixedThreadPool(threads);
    }

    /** Opens or creates the store in {@code directory/STORE}. */
    static Store open(Path directory, Settings settings) {
        Path home = directory.resolve(settings.store);
        boolean exists = exists(home);
        if (exists && settings.flag(Setting.ERROR_IF_EXISTS)) {
            throw new Failure("a database already exists in " + home + ", and errorifexists=true");
        }
        if (!exists && !settings.flag(Setting.CREATE_IF_MISSING)) {
            throw new Failure("no database in " + home + ", and createifmissing=false");
        }
        try {
            Files.createDirectories(home);
        } catch (IOException error) {
            throw new Failure("cannot create " + home, error);
        }
        return new Store(settings.engine.open(home, settings), settings);
    }

    /** Whether the directory contains files, and so a database. */
    private static boolean exists(Path home) {
        String[] files = home.toFile().list();
        return files != null && files.length > 0;
    }

    @Override
    public List<Versioned> get(byte[] key) {
        check(key);
        return pooled(() -> {
            byte[] record = engine.get(key);
            return record == null ? List.of() : Versioned.read(record);
        });
    }

    /** Adds a version, which replaces those from which it descends. */
    void put(byte[] key, Versioned added) throws ObsoleteVersion {
        putAll(List.of(new Put(key, added)));
    }

    @Override
    public void putAll(List<Put> puts) throws ObsoleteVersion {
        puts.forEach(put -> check(put.key()));
        if (puts.stream().map(put -> ByteBuffer.wrap(put.key())).distinct().count() != puts.size()) {
            throw new IllegalArgumentException("duplicate key in the puts");
        }
        int[] wanted = puts.stream().mapToInt(put -> stripe(put.key())).sorted().distinct().toArray();
        ObsoleteVersion refused = pooled(() -> locked(wanted, () -> putLocked(puts)));
        if (refused != null) {
            throw refused;
        }
    }

    private ObsoleteVersion putLocked(List<Put> puts) {
        List<Engine.Entry> entries = new ArrayList<>(puts.size());
        try {
            for (Put put : puts) {
                entries.add(new Engine.Entry(put.key(), with(engine.get(put.key()), put.added())));
            }
        } catch (ObsoleteVersion refused) {
            return refused;
        }
        if (entries.size() == 1) {
            engine.put(entries.get(0).key(), entries.get(0).record());
        } else {
            engine.putAll(entries);
        }
        return null;
    }

    /** Returns the record with one more version, and without those from which it descends. */
    private static byte[] with(byte[] record, Versioned added) throws ObsoleteVersion {
        List<Versioned> kept = new ArrayList<>(1);
        for (Versioned held : record == null ? List.<Versioned>of() : Versioned.read(record)) {
            Order order = added.clock().compare(held.clock());
            if (order == Order.BEFORE || order == Order.SAME) {
                throw new ObsoleteVersion(added.clock(), held.clock());
            }
            if (order == Order.CONCURRENT) {
                kept.add(held);
            }
        }
        kept.add(added);
        return Versioned.write(kept);
    }

    @Override
    public boolean delete(byte[] key, VectorClock clock) {
        check(key);
        return pooled(() -> locked(new int[] {stripe(key)}, () -> deleteLocked(key, clock)));
    }

    private boolean deleteLocked(byte[] key, VectorClock clock) {
        byte[] record = engine.get(key);
        if (record == null) {
            return false;
        }
        List<Versioned> held = Versioned.read(record);
        List<Versioned> kept = new ArrayList<>(held);
        kept.removeIf(version -> {
            Order order = version.clock().compare(clock);
            return order == Order.BEFORE || order == Order.SAME;
        });
        if (kept.size() == held.size()) {
            return false;
        }
        if (kept.isEmpty()) {
            engine.delete(key);
        } else {
            engine.put(key, Versioned.write(kept));
        }
        return true;
    }

    /** Receives each key with its versions. */
    @FunctionalInterface
    interface Visitor {
        void visit(byte[] key, List<Versioned> versions);
    }

    /** Visits all entries in the order of their keys; concurrent changes may be visible or not. */
    void iterate(Visitor visitor) {
        long stamp = replacing.readLock();
        try (Engine.Entries entries = engine.entries()) {
            while (entries.next()) {
                visitor.visit(entries.key(), Versioned.read(entries.record()));
            }
        } finally {
            replacing.unlockRead(stamp);
        }
    }

    /** Removes all entries. Waits for calls in progress, so it must not be called from a {@link Visitor}. */
    void truncate() {
        long stamp = replacing.writeLock();
        try {
            engine.truncate();
        } finally {
            replacing.unlockWrite(stamp);
        }
    }

    @Override
    public void close() {
        long stamp = replacing.writeLock();
        try {
            if (pool != null) {
                pool.shutdown();
            }
            engine.close();
        } finally {
            replacing.unlockWrite(stamp);
        }
    }

    private static void check(byte[] key) {
        if (key.length == 0 || key.length > Engine.LONGEST_KEY) {
            throw new IllegalArgumentException("a key must have 1 to " + Engine.LONGEST_KEY + " bytes, not " + key.length);
        }
    }

    private int stripe(byte[] key) {
        return Math.floorMod(Arrays.hashCode(key), stripes.length);
    }

    /** Does the work under these locks, which are taken in ascending order to avoid deadlocks. */
    private <T> T locked(int[] wanted, Callable<T> work) throws Exception {
        for (int stripe : wanted) {
            stripes[stripe].lock();
        }
        try {
            return work.call();
        } finally {
            for (int stripe : wanted) {
                stripes[stripe].unlock();
            }
        }
    }

    private <T> T pooled(Callable<T> work) {
        long stamp = replacing.readLock();
        try {
            return pool == null ? work.call() : pool.submit(work).get();
        } catch (ExecutionException failed) {
            throw unchecked(failed.getCause());
        } catch (Exception failed) {
            throw unchecked(failed);
        } finally {
            replacing.unlockRead(stamp);
        }
    }

    private static RuntimeException unchecked(Throwable failed) {
        if (failed instanceof Error error) {
            throw error;
        }
        return failed instanceof RuntimeException exception ? exception : new IllegalStateException(failed);
    }
}
