"""The implementation behind the CDC port: users, versions of tables, transactions (docs/cdc.md)."""
