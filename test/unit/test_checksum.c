/*
 * test_checksum.c
 *	  checksum.c: the definition, and that the processor's instruction gives the same.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "checksum.h"

#define PAGE 8192

/* CRC-32C, bit by bit. */
static uint32_t
reference(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < len * 8; i++)
	{
		uint32_t	bit = (crc ^ (byte[i / 8] >> i % 8)) & 1;

		crc = (crc >> 1) ^ (bit ? 0x82F63B78 : 0);
	}
	return crc;
}

static uint32_t
definition(const char *tag, size_t tag_len, const char *page)
{
	uint32_t	lane[4];

	for (int i = 0; i < 4; i++)
		lane[i] = reference(~0U, page + i * PAGE / 4, PAGE / 4);
	return ~reference(reference(~0U, tag, tag_len), lane, sizeof(lane));
}

int
main(void)
{
	static _Alignas(8) char page[PAGE];
	const char	tag[] = "twenty bytes of tag.";
	const size_t n = sizeof(tag) - 1;
	uint32_t	sum;
	int			same = 0;

	check((uint32_t) ~reference(~0U, "123456789", 9) == 0xE3069283, "the reference is CRC-32C");
	check(fc_checksum_portable(tag, n, page, PAGE) == definition(tag, n, page), "a page of zeros, portable");
	check(fc_checksum(tag, n, page, PAGE) == definition(tag, n, page), "a page of zeros, as this processor does it");
	srand(1);
	for (int i = 0; i < PAGE; i++)
		page[i] = (char) rand();
	sum = fc_checksum(tag, n, page, PAGE);
	check(fc_checksum_portable(tag, n, page, PAGE) == definition(tag, n, page), "a page of anything, portable");
	check(sum == definition(tag, n, page), "a page of anything, as this processor does it");
	for (size_t len = 0; len < n; len++)
		same += fc_checksum(tag, len, page, PAGE) == sum;
	check(same == 0, "another tag, another sum");
	for (int i = 0; i < PAGE * 8; i++)
	{
		page[i / 8] ^= (char) (1 << i % 8);
		same += fc_checksum(tag, n, page, PAGE) == sum;
		page[i / 8] ^= (char) (1 << i % 8);
	}
	check(same == 0, "each of the 65,536 bits counts");
	/* what a torn or misplaced read looks like */
	for (int a = 0; a < 4; a++)
		for (int b = a + 1; b < 4; b++)
		{
			char		swapped[PAGE] __attribute__((aligned(8)));

			memcpy(swapped, page, PAGE);
			memcpy(swapped + a * PAGE / 4, page + b * PAGE / 4, PAGE / 4);
			memcpy(swapped + b * PAGE / 4, page + a * PAGE / 4, PAGE / 4);
			same += fc_checksum(tag, n, swapped, PAGE) == sum;
		}
	check(same == 0, "quarters that have changed places");
	return done();
}
