-- The source of compose.yaml: an account for the relay, and a table that changes every second.
CREATE USER relay@'%' IDENTIFIED BY 'an-example';
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO relay@'%';
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, article VARCHAR(20), price DECIMAL(9, 2), at DATETIME);
CREATE EVENT shop.sell ON SCHEDULE EVERY 1 SECOND DO
  INSERT INTO shop.orders (article, price, at) VALUES (ELT(1 + FLOOR(RAND() * 3), 'bread', 'milk', 'tea'), ROUND(RAND() * 10, 2), NOW());
