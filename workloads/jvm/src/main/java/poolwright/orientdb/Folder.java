package poolwright.orientdb;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileVisitOption;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Stream;

/** The files below a directory. */
final class Folder {
    private Folder() {}

    /** Returns the sum of their lengths in bytes, without those behind symbolic links. */
    static long bytes(Path folder) throws IOException {
        long sum = 0;
        for (Path file : files(folder)) {
            try {
                sum += Files.size(file);
            } catch (NoSuchFileException gone) {
                // The database has removed the file in the meantime.
            }
        }
        return sum;
    }

    /** Syncs all files to the device. */
    static void sync(Path folder, FileVisitOption... options) throws IOException {
        for (Path file : files(folder, options)) {
            sync(file);
        }
    }

    static void sync(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    private static List<Path> files(Path folder, FileVisitOption... options) throws IOException {
        try (Stream<Path> all = Files.walk(folder, options)) {
            return all.filter(Files::isRegularFile).toList();
        }
    }
}
