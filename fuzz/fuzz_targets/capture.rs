//! Any bytes as a capture file: no panic, records within the file, an end.
#![no_main]

use std::io::Cursor;

use fourtuple_capture::CaptureReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let name = "fuzz".to_owned();
    let Ok(mut reader) = CaptureReader::from_reader(name, Cursor::new(input.to_vec())) else {
        return;
    };
    let mut last = 0;
    // Compression can make much of little: stop in time.
    for _ in 0..10_000 {
        match reader.next() {
            Some(Ok(record)) => {
                assert_eq!(record.number, last + 1);
                last = record.number;
            }
            Some(Err(e)) => {
                assert!(!e.to_string().is_empty());
                assert!(reader.next().is_none(), "nothing follows an error");
                break;
            }
            None => break,
        }
    }
});
