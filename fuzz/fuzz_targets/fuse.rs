//! Decodes FUSE requests as one buffer (`/dev/fuse`) and as two parts (io_uring), and encodes directory listings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use poolwright_mount::proto::{Dirents, Op, Parts, Request, Wanted, answer_init, decode, put};

fuzz_target!(|bytes: &[u8]| {
    let Some((header, request)) = Request::parse(bytes) else { return };
    if let Ok(request) = request {
        served(&request, bytes);
    } else {
        let _ = format!("{}", request.unwrap_err());
    }
    // The two parts of io_uring, split at an offset that the input chooses.
    let body = &bytes[size_of_val(&header)..];
    let (head, rest) = body.split_at((header.pid as usize).min(body.len()));
    if let Ok(request) = decode(header, Parts { head: Some(head), rest }) {
        served(&request, bytes);
    }
});

fn served(request: &Request<'_>, bytes: &[u8]) {
    let _ = format!("{request:?}");
    match request.op {
        Op::BatchForget(pairs) => {
            assert!(Op::forgets(pairs).count() * 16 == pairs.len());
        }
        Op::Write(write, data) => assert_eq!(write.size as usize, data.len()),
        Op::Init(init, flags2) => {
            let wanted = Wanted { writeback: init.max_readahead & 1 != 0, uring: flags2 & 1 != 0 };
            if let Some((agreed, out)) = answer_init(&init, flags2, wanted) {
                assert!(agreed.max_write <= 1 << 20 && put(&mut [0; 8], &out).is_none());
            }
        }
        Op::Readdir(read) => list(read.size as usize, bytes),
        _ => {}
    }
}

fn list(room: usize, names: &[u8]) {
    let mut out = vec![0xff; room % 8192];
    let mut entries = Dirents::new(&mut out);
    for (n, name) in names.split(|byte| *byte == 0).enumerate() {
        let used = entries.used();
        let fits = used + Dirents::length(name.len(), false) <= entries.room();
        assert_eq!(entries.push(name, n as u64, 8, n as u64 + 1, None), fits);
        assert!(entries.used() <= entries.room() && (fits || entries.used() == used));
    }
}
