//! CRC32c (Castagnoli), reflected, as SCTP uses it (RFC 9260, appendix A).

/// The generator polynomial 0x1edc6f41, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: what byte `b` contributes when `k` bytes follow it within a block of eight ("slicing by 8").
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut b = 0;
    while b < 256 {
        let mut crc = b as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
            bit += 1;
        }
        t[0][b] = crc;
        b += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut b = 0;
        while b < 256 {
            let before = t[k - 1][b];
            t[k][b] = (before >> 8) ^ t[0][(before & 0xff) as usize];
            b += 1;
        }
        k += 1;
    }
    t
}

/// A CRC in the making.
pub(super) struct Crc(u32);

impl Default for Crc {
    fn default() -> Self {
        Self(!0)
    }
}

impl Crc {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let (blocks, rest) = bytes.as_chunks::<8>();
        for block in blocks {
            let [a, b, c, d] =
                (crc ^ u32::from_le_bytes([block[0], block[1], block[2], block[3]])).to_le_bytes();
            crc = TABLES[7][usize::from(a)]
                ^ TABLES[6][usize::from(b)]
                ^ TABLES[5][usize::from(c)]
                ^ TABLES[4][usize::from(d)]
                ^ TABLES[3][usize::from(block[4])]
                ^ TABLES[2][usize::from(block[5])]
                ^ TABLES[1][usize::from(block[6])]
                ^ TABLES[0][usize::from(block[7])];
        }
        for &byte in rest {
            crc = (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        }
        self.0 = crc;
    }

    pub(super) const fn finish(self) -> u32 {
        !self.0
    }
}
