"""What producer, consumer and admin client share."""
