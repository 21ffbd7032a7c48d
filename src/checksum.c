/*-------------------------------------------------------------------------
 *
 * checksum.c
 *	  See checksum.h.
 *
 * CRC-32C, whose instruction takes a new operand every cycle and answers
 * three cycles later: computed in one piece, a page costs three times what it
 * could (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
 * Instruction", Intel 2011).  So the four quarters of a page are summed side
 * by side, and the sum is that of the tag and the four results.  It detects
 * what CRC-32C detects within a quarter: every burst of up to 32 bits, and any
 * other damage but one in 2^32.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "checksum.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define HARDWARE __attribute__((target("sse4.2")))
#define STEP64(crc, word) ((uint32_t) _mm_crc32_u64(crc, word))
#define STEP8(crc, byte) _mm_crc32_u8(crc, byte)
#define has_instruction() __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define HARDWARE __attribute__((target("+crc")))
#define STEP64(crc, word) __crc32cd(crc, word)
#define STEP8(crc, byte) __crc32cb(crc, byte)
#define has_instruction() ((getauxval(AT_HWCAP) & (1 << 7)) != 0)	/* HWCAP_CRC32 */
#endif

#define POLYNOMIAL 0x82F63B78	/* Castagnoli, reflected */
#define LANES 4

static uint32_t
portable_byte(uint32_t crc, uint8_t byte)
{
	static uint32_t table[256];

	/* the last entry is set last */
	if (table[255] == 0)
	{
		for (uint32_t i = 0; i < 256; i++)
		{
			uint32_t	entry = i;

			for (int bit = 0; bit < 8; bit++)
				entry = (entry >> 1) ^ ((entry & 1) ? POLYNOMIAL : 0);
			table[i] = entry;
		}
	}
	return (crc >> 8) ^ table[(uint8_t) crc ^ byte];
}

static uint32_t
portable_word(uint32_t crc, uint64_t word)
{
	for (int i = 0; i < 8; i++, word >>= 8)
		crc = portable_byte(crc, (uint8_t) word);
	return crc;
}

/* The whole function, once for each way to make a step. */
#define CHECKSUM_BY(step64, step8) \
do { \
	const uint64_t *word = page; \
	size_t		words = page_len / LANES / sizeof(uint64_t); \
	uint32_t	lane[LANES] = {~0U, ~0U, ~0U, ~0U}; \
	const uint8_t *byte = tag; \
	uint32_t	crc = ~0U; \
\
	for (size_t i = 0; i < words; i++, word++) \
	{ \
		lane[0] = step64(lane[0], word[0]); \
		lane[1] = step64(lane[1], word[words]); \
		lane[2] = step64(lane[2], word[2 * words]); \
		lane[3] = step64(lane[3], word[3 * words]); \
	} \
	while (tag_len-- > 0) \
		crc = step8(crc, *byte++); \
	crc = step64(crc, ((uint64_t) lane[1] << 32) | lane[0]); \
	crc = step64(crc, ((uint64_t) lane[3] << 32) | lane[2]); \
	return ~crc; \
} while (0)

uint32_t
fc_checksum_portable(const void *tag, size_t tag_len, const void *page, size_t page_len)
{
	CHECKSUM_BY(portable_word, portable_byte);
}

#ifdef HARDWARE
HARDWARE static uint32_t
hardware(const void *tag, size_t tag_len, const void *page, size_t page_len)
{
	CHECKSUM_BY(STEP64, STEP8);
}

uint32_t
fc_checksum(const void *tag, size_t tag_len, const void *page, size_t page_len)
{
	return has_instruction() ? hardware(tag, tag_len, page, page_len) :
		fc_checksum_portable(tag, tag_len, page, page_len);
}
#else
uint32_t
fc_checksum(const void *tag, size_t tag_len, const void *page, size_t page_len)
{
	return fc_checksum_portable(tag, tag_len, page, page_len);
}
#endif
