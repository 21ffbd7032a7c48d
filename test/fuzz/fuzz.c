/*
 * fuzz.c
 *	  Throws damaged data at everything that looks at what a device gave back.
 *
 * usage: fuzz SEED SECONDS
 *
 * Three targets, in turn, each with the real code: the first block of a device (layout.c), a slot with its sum
 * (checksum.c), and pages that are looked into before anybody has vouched for them (pagecmp.c). Inputs are made from a good
 * one by a few changes, so that they come past the first checks. Built with the address and undefined-behaviour
 * sanitizers, and each block is allocated alone, so that a read past its end is seen. Each answer is compared with what
 * must come out, computed another way. The same seed does the same; one input after the other depends on nothing but the
 * seed and its number, which a failure prints.
 */
#include "postgres.h"

#include <time.h>

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/spgist_private.h"
#include "checksum.h"
#include "layout.h"
#include "pagecmp.h"
#include "storage/bufpage.h"

static uint64 seed;
static uint64 input;			/* number of the input at work */
static uint64 state;			/* of the random numbers */

static uint64
next(void)
{
	/* splitmix64 (Steele et al., 2014) */
	uint64		z = (state += UINT64CONST(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static uint32
below(uint32 n)
{
	return (uint32) (next() % n);
}

static void
expect(bool ok, const char *what)
{
	if (ok)
		return;
	printf("not ok: %s (seed " UINT64_FORMAT ", input " UINT64_FORMAT ")\n", what, seed, input);
	exit(1);
}

/* With assertions: what the server's would call. */
void
ExceptionalCondition(const char *condition,
#if PG_VERSION_NUM < 160000
					 const char *type,
#endif
					 const char *file, int line)
{
	printf("assertion %s, %s:%d\n", condition, file, line);
	expect(false, "an assertion");
	abort();
}

/* A block of its own, aligned as malloc does it: 16 bytes. */
static char *
allocate(Size size)
{
	char	   *p = malloc(size);

	if (p == NULL)
		abort();
	return p;
}

static void
fill(char *p, Size size)
{
	for (Size i = 0; i < size; i++)
		p[i] = (char) next();
}

/* Some damage, anywhere in `size` bytes. */
static void
damage(char *p, Size size)
{
	static const uint16 interesting[] = {0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, BLCKSZ, BLCKSZ - 1, 24, 23, 25};

	for (uint32 n = below(6); n > 0; n--)
	{
		Size		at = below(2) ? below((uint32) Min(size, 64)) : below((uint32) size);
		Size		len = 1 + below(16);

		switch (below(5))
		{
			case 0:
				p[at] ^= (char) (1 << below(8));
				break;
			case 1:
				if (at + 1 < size)
					memcpy(&p[at], &interesting[below(lengthof(interesting))], sizeof(uint16));
				break;
			case 2:
				fill(&p[at], Min(len, size - at));
				break;
			case 3:
				memset(&p[at], below(2) ? 0 : 0xFF, Min(len * len, size - at));
				break;
			case 4:				/* from elsewhere in the block */
				len = Min(Min(len * len, size - at), size / 2);
				memmove(&p[at], &p[below((uint32) (size - len))], len);
				break;
		}
	}
}

/* CRC-32C, bit by bit. */
static uint32
reference(uint32 crc, const void *data, Size len)
{
	const uint8 *byte = data;

	for (Size i = 0; i < len; i++)
	{
		crc ^= byte[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78 : 0);
	}
	return crc;
}

/* ---- the first block ---- */

static void
try_first_block(void)
{
	Size		size = below(4) ? FC_HEADER_BLOCK : below(FC_HEADER_BLOCK);
	char	   *whole = allocate(FC_HEADER_BLOCK);
	char	   *good = allocate(FC_HEADER_BLOCK);
	char	   *block = allocate(Max(size, 1));
	uint8		identity[FC_IDENTITY_BYTES];
	bool		ours = false;
	bool		zero = true;

	fill((char *) identity, sizeof(identity));
	if (below(4))
		fc_layout_make_header(whole, (uint32) next(), identity);
	else
		memset(whole, 0, FC_HEADER_BLOCK);
	memcpy(good, whole, FC_HEADER_BLOCK);
	if (below(8))
		damage(whole, below(2) ? 48 : FC_HEADER_BLOCK);
	memcpy(block, whole, size);

	for (Size i = 0; i < size; i++)
		zero &= block[i] == 0;
	if (size >= sizeof(FcHeader))
	{
		uint32		crc;

		memcpy(&crc, block + offsetof(FcHeader, crc), sizeof(crc));
		ours = memcmp(block, "pg_flashcache\n\032", 16) == 0 &&
			crc == ~reference(~0U, block, offsetof(FcHeader, crc));
	}
	expect(fc_layout_is_header(block, size) == ours, "a header");
	expect(fc_layout_has_identity(block, size, identity) ==
		   (ours && size == FC_HEADER_BLOCK && memcmp(block, good, FC_HEADER_BLOCK) == 0), "a header with that identity");
	expect(fc_layout_is_empty(block, size) == zero, "an empty block");
	free(block);
	free(whole);
	free(good);
}

/* ---- a slot and its sum ---- */

static uint64 unlikely_sums = 0;

static void
try_slot(void)
{
	char	   *page = allocate(BLCKSZ);
	char	   *back = allocate(BLCKSZ);
	FcTag		tag = {(Oid) next(), (Oid) next(), (Oid) next(), (BlockNumber) next()};
	FcTag		other = tag;
	uint32		sum;
	bool		same;

	if (below(3))
		fill(page, BLCKSZ);
	else
		memset(page, below(256), BLCKSZ);
	memcpy(back, page, BLCKSZ);
	sum = fc_checksum(&tag, sizeof(tag), page, BLCKSZ);
	expect(sum == fc_checksum_portable(&tag, sizeof(tag), page, BLCKSZ), "the two ways to make a sum");

	switch (below(4))
	{
		case 0:					/* up to 32 bits in a row, within a quarter: always seen */
			{
				uint32		quarter = below(4) * (BLCKSZ / 4);
				uint32		first = below(BLCKSZ / 4 * 8 - 32);
				uint32		bits = 1 + below(32);

				for (uint32 i = 0; i < bits; i++)
					if (i == 0 || below(2))
						back[quarter + (first + i) / 8] ^= (char) (1 << (first + i) % 8);
				expect(fc_checksum(&tag, sizeof(tag), back, BLCKSZ) != sum, "a short burst of damage");
				break;
			}
		case 1:					/* the right page under a name that differs in one word: always seen */
			*(&other.spc + below(4)) ^= 1U << below(32);
			expect(fc_checksum(&other, sizeof(other), page, BLCKSZ) != sum, "the page of another block");
			break;
		case 2:					/* torn: some sectors are those of another page */
			for (int sector = 0; sector < BLCKSZ / 512; sector++)
				if (below(2))
					fill(back + sector * 512, 512);
			break;
		case 3:
			damage(back, BLCKSZ);
			break;
	}
	same = memcmp(page, back, BLCKSZ) == 0;
	if (same)
		expect(fc_checksum(&tag, sizeof(tag), back, BLCKSZ) == sum, "the same page");
	else if (fc_checksum(&tag, sizeof(tag), back, BLCKSZ) == sum)
		expect(++unlikely_sums < 3, "three sums that were right by chance, of which one in 2^32 should be");
	free(page);
	free(back);
}

/* ---- pages ---- */

/* A page with some items, as heap or as an index would have it; returns how many. */
static int
make_page(char *p, bool heap)
{
	PageHeader	h = (PageHeader) p;
	Size		special = heap ? 0 : below(2) ? MAXALIGN(sizeof(BTPageOpaqueData)) : MAXALIGN(sizeof(SpGistPageOpaqueData));
	int			n = (int) below(20);
	Size		upper = BLCKSZ - special;

	memset(p, 0, BLCKSZ);
	h->pd_special = (LocationIndex) upper;
	h->pd_pagesize_version = BLCKSZ | PG_PAGE_LAYOUT_VERSION;
	h->pd_prune_xid = (TransactionId) next();
	PageSetLSN((Page) p, below(4) ? next() : 0);
	for (int i = 0; i < n; i++)
	{
		Size		size = MAXALIGN(SizeofHeapTupleHeader + below(200));

		upper -= size;
		ItemIdSetNormal(&h->pd_linp[i], (unsigned) upper, (unsigned) size);
		fill(p + upper, size);
	}
	h->pd_lower = (LocationIndex) (SizeOfPageHeaderData + n * sizeof(ItemIdData));
	h->pd_upper = (LocationIndex) upper;
	fill(p + h->pd_special, special);
	if (!heap)
	{
		uint16		id = special == MAXALIGN(sizeof(BTPageOpaqueData)) ? (uint16) (0xFF7F + below(5)) : SPGIST_PAGE_ID;

		memcpy(p + BLCKSZ - sizeof(id), &id, sizeof(id));
	}
	return n;
}

static void
try_pages(void)
{
	char	   *a = allocate(BLCKSZ);
	char	   *b = allocate(BLCKSZ);
	bool		heap = below(2);
	int			n = make_page(a, heap);
	PageHeader	h = (PageHeader) b;
	int			where = -1;
	bool		equal;
	bool		restored;

	memcpy(b, a, BLCKSZ);
	expect(fc_page_sane(a), "a good page");
	expect(fc_page_ahead_of_disk(a) == (!heap && PageGetLSN((Page) b) == 0), "a page that may be ahead of the disk");
	switch (below(3))
	{
		case 0:					/* hints only */
			h->pd_checksum = (uint16) next();
			h->pd_prune_xid = (TransactionId) next();
			h->pd_flags ^= (uint16) (below(4));
			if (heap && n > 0)
				((HeapTupleHeader) (b + ItemIdGetOffset(&h->pd_linp[below(n)])))->t_infomask ^=
					(uint16) (next() & (HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID | HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID));
			if (!heap && n > 0)
				h->pd_linp[below(n)].lp_flags = LP_DEAD;
			expect(fc_pages_equal(a, b, false, &where) && fc_pages_equal(b, a, false, &where), "pages that differ in hints");
			/* a hint that was logged */
			b[5] ^= (char) (1 + below(255));
			expect(!fc_pages_equal(a, b, false, &where), "pages that differ in their LSN");
			expect(fc_pages_equal(a, b, true, &where), "a restored page that differs in its LSN");
			break;
		case 1:					/* one byte behind the header of a tuple, or in the free space */
			{
				Size		at = SizeOfPageHeaderData + n * sizeof(ItemIdData);

				if (n > 0 && below(4))
				{
					ItemId		id = &h->pd_linp[below(n)];

					at = ItemIdGetOffset(id) + SizeofHeapTupleHeader - 1;
					at += below((uint32) (ItemIdGetLength(id) - SizeofHeapTupleHeader + 1));
				}
				b[at] ^= (char) (1 + below(255));
				expect(!fc_pages_equal(a, b, false, &where), "pages that differ");
				expect(where == (int) at, "where they differ");
				break;
			}
		case 2:					/* anything; what has been read from disk has not been checked yet, either */
			damage(b, BLCKSZ);
			if (below(2))
				damage(a, BLCKSZ);
			if (fc_page_sane(b))
				(void) fc_page_ahead_of_disk(b);
			restored = below(2) == 1;
			equal = fc_pages_equal(a, b, restored, &where);
			expect(equal == fc_pages_equal(b, a, restored, &where), "which is compared with which");
			expect(equal || (where >= 0 && where < BLCKSZ), "where damaged pages differ");
			expect(fc_pages_equal(b, b, restored, &where), "a damaged page and itself");
			break;
	}
	free(a);
	free(b);
}

int
main(int argc, char **argv)
{
	void		(*const targets[]) (void) = {try_first_block, try_slot, try_pages};
	time_t		end;

	if (argc != 3)
	{
		fprintf(stderr, "usage: %s SEED SECONDS\n", argv[0]);
		return 2;
	}
	seed = strtoull(argv[1], NULL, 10);
	end = time(NULL) + atol(argv[2]);
	do
	{
		for (int i = 0; i < 3000; i++, input++)
		{
			state = seed ^ (input * UINT64CONST(0xD1342543DE82EF95));
			targets[input % lengthof(targets)] ();
		}
	} while (time(NULL) < end);
	printf("seed " UINT64_FORMAT ": " UINT64_FORMAT " inputs\n", seed, input);
	return 0;
}
