package poolwright.orientdb;

import com.orientechnologies.orient.core.Orient;
import com.orientechnologies.orient.core.db.ODatabaseDocumentInternal;
import com.orientechnologies.orient.core.db.ODatabaseSession;
import com.orientechnologies.orient.core.db.OrientDB;
import com.orientechnologies.orient.core.db.OrientDBConfig;
import com.orientechnologies.orient.core.storage.impl.local.OAbstractPaginatedStorage;
import com.orientechnologies.orient.core.storage.impl.local.paginated.wal.OWriteAheadLog;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import poolwright.driver.Failure;
import poolwright.driver.Spec;

/** The OrientDB of one phase: its files are in the dataset "data", and its WAL is in "wal". */
final class Database implements AutoCloseable {
    static final String NAME = "dbpedia";
    // Only this process can reach it, or the loopback interface during a phase.
    static final String USER = "admin";
    static final String PASSWORD = "admin";

    private static boolean started;

    private final Path data;
    private final Path wal;
    private final Server server;
    private final OrientDB orient;

    private Database(Spec spec, Settings settings) throws IOException {
        started = true;
        data = spec.path("data");
        wal = spec.path("wal");
        settings.apply(wal);
        server = settings.remote() ? new Server(data, spec.scratch()) : null;
        orient = server == null
                ? new OrientDB("embedded:" + data, OrientDBConfig.defaultConfig())
                : new OrientDB(server.url(), Server.USER, server.password(), OrientDBConfig.defaultConfig());
    }

    static Database create(Spec spec, Settings settings) throws IOException {
        Path folder = spec.path("data").resolve(NAME);
        if (Files.exists(folder)) {
            throw new Failure("a database already exists in " + folder + "; the import requires empty datasets");
        }
        Database database = new Database(spec, settings);
        database.orient.execute(
                "create database " + NAME + " plocal users (" + USER + " identified by '" + PASSWORD + "' role admin)");
        return database;
    }

    static Database open(Spec spec, Settings settings) throws IOException {
        Path folder = spec.path("data").resolve(NAME);
        if (!Files.exists(folder)) {
            throw new Failure("no database in " + folder + "; run the phase 'import' or 'load' first");
        }
        return new Database(spec, settings);
    }

    /** Returns the directory of the database's files. */
    Path folder() {
        return data.resolve(NAME);
    }

    /** Opens a session like a client. */
    ODatabaseSession session() {
        return orient.open(NAME, USER, PASSWORD);
    }

    /** Opens a session within the server, if there is one. */
    ODatabaseSession local() {
        return server == null ? session() : server.open(NAME);
    }

    long walBytes() throws IOException {
        return Folder.bytes(wal);
    }

    long dataBytes() throws IOException {
        return Folder.bytes(data);
    }

    /**
     * Writes all pages and the WAL to the device. OrientDB then truncates its WAL; {@code keepWal} prevents this in the same
     * way as a backup does.
     */
    void flush(boolean keepWal) throws IOException {
        try (ODatabaseSession session = local()) {
            OAbstractPaginatedStorage storage =
                    (OAbstractPaginatedStorage) ((ODatabaseDocumentInternal) session).getStorage();
            if (keepWal) {
                OWriteAheadLog log = storage.getWALInstance();
                log.addCutTillLimit(log.begin());
            }
            storage.synch();
        }
        Folder.sync(data);
        Folder.sync(wal);
    }

    /** Makes the process exit without closing the database, which would truncate the WAL; call it after a flush. */
    void abandon() {
        endQuietly();
    }

    /** Removes OrientDB's shutdown hooks, if it was started. */
    static void endQuietly() {
        if (started) {
            Orient.instance().removeShutdownHook();
        }
    }

    @Override
    public void close() {
        orient.close();
        if (server != null) {
            server.close();
        }
        Orient.instance().shutdown();
    }
}
