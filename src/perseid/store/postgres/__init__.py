"""The store on PostgreSQL, and with it on Citus: distributed tables, not a second code path."""
