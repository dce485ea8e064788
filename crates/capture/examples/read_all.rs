//! Reads captures to their end and says how fast: `cargo run --release --example read_all -- FILE...`

use std::time::Instant;

use fourtuple_capture::{CaptureError, CaptureReader};

fn main() -> Result<(), CaptureError> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut reader = CaptureReader::open(&path)?;
        let mut bytes = 0;
        while let Some(record) = reader.next() {
            let record = record?;
            // Touches the data, as any user would.
            bytes += record.data.len() as u64 + u64::from(record.data.first() == Some(&0));
        }
        let (records, seconds) = (reader.records(), start.elapsed().as_secs_f64());
        println!(
            "{path}: {records} records, {bytes} bytes, {seconds:.3} s, {:.1} ns a record, {:.2} GB/s",
            seconds * 1e9 / records.max(1) as f64,
            reader.offset() as f64 / seconds / 1e9,
        );
    }
    Ok(())
}
