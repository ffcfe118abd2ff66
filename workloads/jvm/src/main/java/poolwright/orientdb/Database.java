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
    // Only this process can reach it, or the loopback for as long as a phase runs.
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
            throw new Failure("there is a database in " + folder + " already; import begins with empty datasets");
        }
        Database database = new Database(spec, settings);
        database.orient.execute(
                "create database " + NAME + " plocal users (" + USER + " identified by '" + PASSWORD + "' role admin)");
        return database;
    }

    static Database open(Spec spec, Settings settings) throws IOException {
        Path folder = spec.path("data").resolve(NAME);
        if (!Files.exists(folder)) {
            throw new Failure("there is no database in " + folder + "; a phase 'import' or 'load' has to come first");
        }
        return new Database(spec, settings);
    }

    /** Where the files of the database are. */
    Path folder() {
        return data.resolve(NAME);
    }

    /** A session as a client has it. */
    ODatabaseSession session() {
        return orient.open(NAME, USER, PASSWORD);
    }

    /** A session within the server, if there is one. */
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
     * Every page is in its file and on the device, and so is the WAL. OrientDB cuts its WAL then; with {@code keepWal}
     * it keeps it, as a backup makes it do.
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

    /** The process will end without closing the database, whose close would cut the WAL; call it after a flush. */
    void abandon() {
        endQuietly();
    }

    /** OrientDB, if it was started at all, does nothing when the process ends. */
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
