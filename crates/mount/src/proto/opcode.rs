//! Opcodes of requests.

/// Declares the operations, with conversions between number, variant and name.
macro_rules! opcodes {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// An operation of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // the kernel's names
        pub enum Opcode { $($name = $number),* }

        impl Opcode {
            /// All operations, by number.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name),*];

            /// The operation with this number, if it is known.
            pub fn from_number(number: u32) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// Its name as in the kernel's header, without `FUSE_` and in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => {
                        const LOWER: [u8; stringify!($name).len()] = lower(stringify!($name));
                        match std::str::from_utf8(&LOWER) { Ok(text) => text, Err(_) => stringify!($name) }
                    })*
                }
            }
        }
    };
}

const fn lower<const N: usize>(text: &str) -> [u8; N] {
    let (mut out, mut i) = ([0; N], 0);
    while i < N {
        out[i] = text.as_bytes()[i].to_ascii_lowercase();
        i += 1;
    }
    out
}

opcodes! {
    Lookup = 1, Forget = 2, Getattr = 3, Setattr = 4, Readlink = 5, Symlink = 6, Mknod = 8, Mkdir = 9, Unlink = 10,
    Rmdir = 11, Rename = 12, Link = 13, Open = 14, Read = 15, Write = 16, Statfs = 17, Release = 18, Fsync = 20,
    Setxattr = 21, Getxattr = 22, Listxattr = 23, Removexattr = 24, Flush = 25, Init = 26, Opendir = 27,
    Readdir = 28, Releasedir = 29, Fsyncdir = 30, Getlk = 31, Setlk = 32, Setlkw = 33, Access = 34, Create = 35,
    Interrupt = 36, Bmap = 37, Destroy = 38, Ioctl = 39, Poll = 40, NotifyReply = 41, BatchForget = 42,
    Fallocate = 43, Readdirplus = 44, Rename2 = 45, Lseek = 46, CopyFileRange = 47, Setupmapping = 48,
    Removemapping = 49, Syncfs = 50, Tmpfile = 51, Statx = 52,
}

/// One more than the highest number.
pub const LIMIT: usize = 53;
