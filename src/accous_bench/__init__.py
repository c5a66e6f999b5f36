"""What accous is measured against: the contenders by name, and DANN, which stands outside its own line of methods."""
