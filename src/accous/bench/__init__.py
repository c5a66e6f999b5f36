"""What accous is measured against: contenders that stand outside its own line of methods."""
