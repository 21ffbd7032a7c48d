/*-------------------------------------------------------------------------
 *
 * rules/rules_state.c
 *	  What all files of this module use.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "rules/rules_internal.h"

FcRulesShared *fc_rules = NULL;

uint32		fc_rules_notes = 0;

int
fc_rules_compare_rel(const FcRel *a, const FcRel *b)
{
	if (a->db != b->db)
		return a->db < b->db ? -1 : 1;
	if (a->spc != b->spc)
		return a->spc < b->spc ? -1 : 1;
	return a->rel < b->rel ? -1 : a->rel > b->rel;
}

int
fc_rules_compare_oids(const void *a, const void *b)
{
	Oid			x = *(const Oid *) a;
	Oid			y = *(const Oid *) b;

	return x < y ? -1 : x > y;
}

FcRulesDatabase *
fc_rules_find(Oid db)
{
	for (int i = 0; i < FC_RULES_DATABASES; i++)
		if (fc_rules->database[i].db == db)
			return &fc_rules->database[i];
	return NULL;
}
