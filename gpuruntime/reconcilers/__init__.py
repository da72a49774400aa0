"""The manager: reconcilers of units, stock, pools and storages."""
