package poolwright.kv;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import poolwright.driver.Failure;

/** Serves a store on a socket, with a thread for each connection. */
final class StoreServer implements AutoCloseable {
    /** Name of the socket's file. */
    static final String SOCKET = "store.sock";
    /** The system's limit for the path of a socket. */
    private static final int LONGEST_PATH = 107;

    private final Store store;
    private final Path path;
    private final ServerSocketChannel listening;
    private final Thread acceptor;
    private final List<Thread> serving = new ArrayList<>();

    /** Starts the server; its socket is in {@code directory}, which only this user may enter. */
    StoreServer(Store store, Path directory) throws IOException {
        this.store = store;
        path = directory.resolve(SOCKET);
        if (path.toString().length() > LONGEST_PATH) {
            throw new Failure("the scratch directory's path is too long for a Unix socket: " + path);
        }
        Files.deleteIfExists(path);
        listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path));
        acceptor = new Thread(this::accept, "accept");
        acceptor.start();
    }

    RemoteStore connect() throws IOException {
        return new RemoteStore(UnixDomainSocketAddress.of(path));
    }

    /** Waits until every client has closed its connection. */
    @Override
    public void close() throws IOException {
        listening.close();
        try {
            acceptor.join();
            for (Thread thread : serving) {
                thread.join();
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        Files.deleteIfExists(path);
    }

    private void accept() {
        try {
            while (true) {
                SocketChannel channel = listening.accept();
                Thread thread = new Thread(() -> serve(channel), "serve");
                serving.add(thread);
                thread.start();
            }
        } catch (ClosedChannelException closed) {
            // The server was closed.
        } catch (IOException problem) {
            throw new Failure("cannot accept a connection to the store", problem);
        }
    }

    private void serve(SocketChannel channel) {
        try (channel;
                DataInputStream in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
                DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel)))) {
            while (true) {
                answer(in.readByte(), in, out);
                out.flush();
            }
        } catch (EOFException closed) {
            // The client has closed the connection.
        } catch (IOException lost) {
            // The client reports it.
        }
    }

    private void answer(byte kind, DataInputStream in, DataOutputStream out) throws IOException {
        try {
            switch (kind) {
                case RemoteStore.GET -> {
                    List<Versioned> found = store.get(RemoteStore.read(in));
                    out.writeByte(RemoteStore.OK);
                    RemoteStore.write(out, Versioned.write(found));
                }
                case RemoteStore.PUT_ALL -> {
                    store.putAll(puts(in));
                    out.writeByte(RemoteStore.OK);
                }
                case RemoteStore.DELETE -> {
                    byte[] key = RemoteStore.read(in);
                    boolean removed = store.delete(key, VectorClock.read(ByteBuffer.wrap(RemoteStore.read(in))));
                    out.writeByte(RemoteStore.OK);
                    out.writeBoolean(removed);
                }
                default -> throw new IOException("unknown request " + kind);
            }
        } catch (ObsoleteVersion refused) {
            fail(out, RemoteStore.OBSOLETE, refused);
        } catch (RuntimeException failed) {
            fail(out, RemoteStore.FAILED, failed);
        }
    }

    private static List<StoreAccess.Put> puts(DataInputStream in) throws IOException {
        int count = in.readInt();
        List<StoreAccess.Put> puts = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            puts.add(new StoreAccess.Put(RemoteStore.read(in), Versioned.read(RemoteStore.read(in)).get(0)));
        }
        return puts;
    }

    private static void fail(DataOutputStream out, byte status, Exception why) throws IOException {
        out.writeByte(status);
        RemoteStore.write(out, String.valueOf(why.getMessage()).getBytes(StandardCharsets.UTF_8));
    }
}
