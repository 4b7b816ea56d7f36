"""Messages as rows of Arrow tables: read (`reading.py`) and written (`writing.py`), with one schema (`schema.py`).

The only package that needs pyarrow. Those who use it import it when they need it: broker and client run without.
"""
