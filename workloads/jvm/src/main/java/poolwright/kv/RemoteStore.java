package poolwright.kv;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.List;
import poolwright.driver.Failure;

/**
 * A connection to a {@link StoreServer}, for one thread. A request is its kind (1 byte) and its fields, an answer its status (1
 * byte) and its fields; keys, records and messages follow their length (4 bytes, big-endian). A record is that of {@link Versioned}.
 */
final class RemoteStore implements StoreAccess, AutoCloseable {
    static final byte GET = 1;
    static final byte PUT_ALL = 2;
    static final byte DELETE = 3;

    static final byte OK = 0;
    static final byte OBSOLETE = 1;
    static final byte FAILED = 2;

    private final SocketChannel channel;
    private final DataInputStream in;
    private final DataOutputStream out;

    RemoteStore(UnixDomainSocketAddress address) throws IOException {
        channel = SocketChannel.open(address);
        in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
        out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel)));
    }

    @Override
    public List<Versioned> get(byte[] key) {
        try {
            out.writeByte(GET);
            write(out, key);
            answered();
            return Versioned.read(read(in));
        } catch (IOException lost) {
            throw lost(lost);
        }
    }

    @Override
    public void putAll(List<Put> puts) throws ObsoleteVersion {
        try {
            out.writeByte(PUT_ALL);
            out.writeInt(puts.size());
            for (Put put : puts) {
                write(out, put.key());
                write(out, Versioned.write(List.of(put.added())));
            }
            if (answered() == OBSOLETE) {
                throw new ObsoleteVersion(text(in));
            }
        } catch (IOException lost) {
            throw lost(lost);
        }
    }

    @Override
    public boolean delete(byte[] key, VectorClock clock) {
        try {
            out.writeByte(DELETE);
            write(out, key);
            ByteBuffer bytes = ByteBuffer.allocate(clock.length());
            clock.write(bytes);
            write(out, bytes.array());
            answered();
            return in.readBoolean();
        } catch (IOException lost) {
            throw lost(lost);
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    /** Sends the request and returns the status of its answer; throws if the store failed. */
    private byte answered() throws IOException {
        out.flush();
        byte status = in.readByte();
        if (status == FAILED) {
            throw new Failure("the store failed: " + text(in));
        }
        return status;
    }

    private static Failure lost(IOException why) {
        return new Failure("the connection to the store was lost", why);
    }

    static void write(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    static byte[] read(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    private static String text(DataInputStream in) throws IOException {
        return new String(read(in), StandardCharsets.UTF_8);
    }
}
