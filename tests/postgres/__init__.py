"""What only PostgreSQL has: several front ends on one database, connections that break."""
