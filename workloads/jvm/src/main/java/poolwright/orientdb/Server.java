package poolwright.orientdb;

import com.orientechnologies.orient.core.Orient;
import com.orientechnologies.orient.core.db.ODatabaseSession;
import com.orientechnologies.orient.server.OServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.UUID;
import poolwright.driver.Failure;

/** An OrientDB server in this process, which listens only on the loopback interface. */
final class Server implements AutoCloseable {
    static final String USER = "root";

    private final String password = UUID.randomUUID().toString();
    private final int port = freePort();
    private final OServer server;

    /** Databases are in the directory {@code data}; all other files of the server are in {@code scratch}. */
    Server(Path data, Path scratch) throws IOException {
        System.setProperty(Orient.ORIENTDB_HOME, scratch.toString());
        server = new OServer(false);
        try {
            server.startup(configuration(data)).activate();
        } catch (ReflectiveOperationException error) {
            throw new Failure("cannot start OrientDB's server", error);
        }
    }

    String url() {
        return "remote:127.0.0.1:" + port;
    }

    String password() {
        return password;
    }

    ODatabaseSession open(String name) {
        return server.getDatabases().openNoAuthorization(name);
    }

    private String configuration(Path data) {
        return """
                <orient-server>
                  <network>
                    <protocols>
                      <protocol name="binary"
                        implementation="com.orientechnologies.orient.server.network.protocol.binary.ONetworkProtocolBinary"/>
                    </protocols>
                    <listeners>
                      <listener protocol="binary" ip-address="127.0.0.1" port-range="%d-%d" socket="default"/>
                    </listeners>
                  </network>
                  <users><user name="%s" password="%s" resources="*"/></users>
                  <properties><entry name="server.database.path" value="%s"/></properties>
                </orient-server>
                """.formatted(port, port, USER, password, data);
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new Failure("no free port on the loopback interface", error);
        }
    }

    @Override
    public void close() {
        server.shutdown();
    }
}
