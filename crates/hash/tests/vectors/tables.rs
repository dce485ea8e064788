//! Published vectors: entry n is the hash of the n bytes 00, 01, .. under the key 00, 01, ..
//!
//! Given as numbers; the sources of the first two list the result's bytes, lowest first.

/// SipHash-2-4, 64-bit result, 16-byte key: `vectors_sip64` of the authors' reference implementation.
#[rustfmt::skip]
pub(crate) const SIPHASH_2_4: [u64; 64] = [
    0x726f_db47_dd0e_0e31, 0x74f8_39c5_93dc_67fd, 0x0d6c_8009_d9a9_4f5a, 0x8567_6696_d7fb_7e2d,
    0xcf27_94e0_2771_87b7, 0x1876_5564_cd99_a68d, 0xcbc9_466e_58fe_e3ce, 0xab02_00f5_8b01_d137,
    0x93f5_f579_9a93_2462, 0x9e00_82df_0ba9_e4b0, 0x7a5d_bbc5_94dd_b9f3, 0xf4b3_2f46_226b_ada7,
    0x751e_8fbc_860e_e5fb, 0x14ea_5627_c084_3d90, 0xf723_ca90_8e7a_f2ee, 0xa129_ca61_49be_45e5,
    0x3f2a_cc7f_57c2_9bdb, 0x699a_e9f5_2cbe_4794, 0x4bc1_b3f0_968d_d39c, 0xbb6d_c91d_a779_61bd,
    0xbed6_5cf2_1aa2_ee98, 0xd0f2_cbb0_2e3b_67c7, 0x9353_6795_e3a3_3e88, 0xa80c_038c_cd5c_cec8,
    0xb8ad_50c6_f649_af94, 0xbce1_92de_8a85_b8ea, 0x17d8_35b8_5bbb_15f3, 0x2f2e_6163_076b_cfad,
    0xde4d_aaac_a71d_c9a5, 0xa6a2_5066_8795_6571, 0xad87_a353_5c49_ef28, 0x32d8_92fa_d841_c342,
    0x7127_512f_72f2_7cce, 0xa7f3_2346_f959_78e3, 0x12e0_b01a_bb05_1238, 0x15e0_34d4_0fa1_97ae,
    0x314d_ffbe_0815_a3b4, 0x0279_90f0_2962_3981, 0xcadc_d4e5_9ef4_0c4d, 0x9abf_d876_6a33_735c,
    0x0e3e_a96b_5304_a7d0, 0xad0c_42d6_fc58_5992, 0x1873_06c8_9bc2_15a9, 0xd4a6_0abc_f379_2b95,
    0xf935_451d_e4f2_1df2, 0xa953_8f04_1975_5787, 0xdb9a_cddf_f56c_a510, 0xd06c_98cd_5c09_75eb,
    0xe612_a3cb_9ecb_a951, 0xc766_e62c_fcad_af96, 0xee64_435a_9752_fe72, 0xa192_d576_b245_165a,
    0x0a87_87bf_8ecb_74b2, 0x81b3_e73d_20b4_9b6f, 0x7fa8_220b_a3b2_ecea, 0x2457_31c1_3ca4_2499,
    0xb78d_bfaf_3a8d_83bd, 0xea1a_d565_322a_1a0b, 0x60e6_1c23_a379_5013, 0x6606_d7e4_4628_2b93,
    0x6ca4_ecb1_5c5f_91e1, 0x9f62_6da1_5c96_25f3, 0xe51b_3860_8ef2_5f57, 0x958a_324c_eb06_4572,
];

/// HalfSipHash-2-4, 32-bit result, 8-byte key: `vectors_hsip32` of the same.
#[rustfmt::skip]
pub(crate) const HALF_2_4: [u32; 64] = [
    0x5b9f_35a9, 0xb85a_4727, 0x03a6_62fa, 0x04e7_fe8a, 0x8946_6e2a, 0x69b6_fac5, 0x23fc_6358, 0xc563_cf8b,
    0x8f84_b8d0, 0x79e7_06f8, 0x3479_b094, 0x5030_0808, 0x2f87_f057, 0xff63_e677, 0x7cf8_ffd6, 0x972b_fe74,
    0x84ac_b5d9, 0x5b64_74c4, 0x9b8d_5b46, 0x87e3_ef7b, 0x4510_4de3, 0xb362_3f61, 0xfe67_f370, 0xbdb8_ade6,
    0x630c_4027, 0x7578_7826, 0x5f7b_564f, 0x69e6_b03a, 0x0040_64b0, 0xb40f_67ff, 0x8b33_9e50, 0x1a9f_585d,
    0x1221_e7fe, 0x5932_7533, 0x8c4f_436a, 0x29b7_28fe, 0xecc6_5ce7, 0x548d_7e69, 0x0f8b_6863, 0xb462_0b65,
    0x4018_bcb6, 0x0545_075d, 0x2efd_4224, 0x3a86_b77b, 0x48d5_0577, 0xb108_52d7, 0xc899_d4b6, 0x2e20_9208,
    0xe32c_e169, 0xe580_b58d, 0xc664_9736, 0x0402_6e01, 0xd4f3_853b, 0xbe66_dbfe, 0x3a2a_691e, 0xc084_89c6,
    0x40b9_c5a5, 0x8ce8_e99b, 0x4081_bc7d, 0xc58e_077c, 0x736c_e7d4, 0xb9cb_8f42, 0x7a99_83bd, 0x744a_ea59,
];

/// HalfSipHash-1-3, 8-byte key: `hsiphash` of a 32-bit machine, from the self test of Linux.
#[rustfmt::skip]
pub(crate) const HALF_1_3: [u32; 64] = [
    0x5814_c896, 0xe7e8_64ca, 0xbc4b_0e30, 0x0153_9939, 0x7e05_9ea6, 0x88e3_d89b, 0xa008_0b65, 0x9d38_d9d6,
    0x5779_99b1, 0xc839_caed, 0xe4fa_32cf, 0x9592_46ee, 0x6b28_096c, 0x66dd_9cd6, 0x1665_8a7c, 0xd025_7b04,
    0x8b31_d501, 0x2b1c_d04b, 0x0671_2339, 0x522a_ca67, 0x911b_b605, 0x90a6_5f0e, 0xf826_ef7b, 0x6251_2deb,
    0x5715_0ad7, 0x5d47_3507, 0x1ec4_7442, 0xab64_afd3, 0x0a41_00d0, 0x6d2c_e652, 0x2331_b6a3, 0x08d8_791a,
    0xbc6d_da8d, 0xe0f6_c934, 0xb065_2033, 0x9b98_51cc, 0x7c46_fb7f, 0x732b_a8cb, 0xf142_997a, 0xfcc9_aa1b,
    0x0532_7eb2, 0xe110_131c, 0xf9e5_e7c0, 0xa7d7_08a6, 0x1179_5ab1, 0x6567_1619, 0x9f5f_ff91, 0xd89c_5267,
    0x0077_83eb, 0x9576_6243, 0xab63_9262, 0x9c7e_1390, 0xc368_dda6, 0x38dd_c455, 0xfa13_d379, 0x979e_a4e8,
    0x53ec_d77e, 0x2ee8_0657, 0x33db_b66a, 0xae3f_0577, 0x88b4_c4cc, 0x3e7f_480b, 0x74c1_ebf8, 0x8717_8304,
];
